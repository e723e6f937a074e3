"""A sentence quoted word for word counts fully, wherever in the passage it stands."""

import pytest

from rag_zeval.judge.evidence import ReferenceIndex, grounding
from rag_zeval.stages import world
from rewards.tokens import PolicyTokens

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module", params=["nano", "byte-level BPE"])
def tokenize(request):
    if request.param == "nano":
        from train.nano.tokenizer import build_tokenizer

        return PolicyTokens(build_tokenizer())
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    passages = [asked.passage for asked in world.questions("train", 200, seed=1)]
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(passages, trainer)
    return PolicyTokens(PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def test_every_sentence_of_a_passage_is_verbatim_and_a_changed_one_is_not(tokenize):
    for asked in world.questions("dev", 30, seed=0):
        reference = ReferenceIndex(tokenize(asked.passage))
        for key, sentence in asked.sentences.items():
            assert grounding(tokenize(sentence), reference) == 1.0
            changed = sentence.replace(asked.facts[key], "Xyzzy")
            assert 0 < grounding(tokenize(changed), reference) < 1.0


def test_different_bytes_stay_different(tokenize):
    assert tokenize("é") != tokenize("è")
    assert tokenize("日本") != tokenize("日木")


def test_half_an_emoji_costs_a_quote_no_more_than_its_token(tokenize):
    sentence = world.questions("dev", 1, seed=0)[0].passage
    whole, broken = tokenize(sentence), tokenize(sentence + " \ud83d")
    assert broken[: len(whole)] == whole
