"""A sentence quoted word for word counts fully, wherever in the passage it stands; one quoted otherwise does not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evidence import MIN_SPAN_TOKENS, ReferenceIndex
from rag_zeval.judge.parser import parse_strict
from rag_zeval.stages import world
from rewards.evidence import evidence_reward
from rewards.tokens import PolicyTokens
from tests.rewards.test_rewards import TOKENIZER, claim, text

pytest.importorskip("tokenizers")
SPACES = st.text(" \t\n\u00a0\u3000", max_size=3)


def trained(kind):
    """A small tokenizer of a kind that models have, which decodes a token as theirs do."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    if kind == "byte-level BPE":  # Qwen: a space begins a word
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:  # Llama 2: a bar begins a word, and a token that is decoded alone loses it
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    passages = [asked.passage + " ()é\n" for asked in world.questions("train", 200, seed=1)]
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=[*pre_tokenizers.ByteLevel.alphabet(), *"日本木"])
    tokenizer.train_from_iterator(passages, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.fixture(scope="module", params=["nano", "byte-level BPE", "metaspace BPE"])
def tokenizer(request):
    if request.param == "nano":  # a space ends a word
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(TOKENIZER)
    return trained(request.param)


@pytest.fixture(scope="module")
def tokenize(tokenizer):
    return PolicyTokens(tokenizer)


def verbatim(quote, passage, tokenize):
    trajectory = parse_strict(text([claim(quotes=[quote])]), 1)
    return evidence_reward(trajectory, ReferenceIndex(tokenize(passage)), tokenize)


ASKED = world.questions("dev", 30, seed=0)


def test_every_sentence_of_a_passage_is_verbatim_and_a_changed_one_is_not(tokenize):
    for asked in ASKED:
        for key, sentence in asked.sentences.items():
            assert verbatim(sentence, asked.passage, tokenize) == 1.0
            changed = sentence.replace(asked.facts[key], "Xyzzy")
            assert 0 < verbatim(changed, asked.passage, tokenize) < 1.0


@pytest.mark.parametrize("around", ["({})", "\n{}\n\n", "“{}”", " {} ", "x{}"])
def test_what_stands_beside_a_sentence_in_the_passage_costs_it_its_edges_at_most(around, tokenize):
    for asked in ASKED[:5]:
        first, sentence, *rest = asked.sentences.values()
        passage = f"{first} {around.format(sentence)} {' '.join(rest)}"
        n = len(tokenize(sentence))  # a tokenizer may join its first or last letters with what stands beside them
        assert verbatim(sentence, passage, tokenize) >= (n - 2) / n


@given(st.sampled_from(ASKED), SPACES, SPACES)
def test_whitespace_around_a_quote_moves_no_reward(tokenize, asked, before, after):
    for sentence in asked.sentences.values():
        assert tokenize(before + sentence + after) == tokenize(sentence)


@given(st.sampled_from(ASKED), st.integers(0, 20))
def test_a_quote_without_its_spaces_is_not_the_sentence(tokenize, asked, kept):
    sentence = max(asked.sentences.values(), key=len)
    words = sentence.split()
    glued = " ".join([*words[:kept], "".join(words[kept:])]).strip()
    assert verbatim(glued, asked.passage, tokenize) < 1.0 or glued == sentence
    assert verbatim("".join(words), asked.passage, tokenize) < 0.5


@given(st.text("ab \n", max_size=40))
def test_every_token_within_a_quote_counts(tokenizer, tokenize, quote):
    """MIN_SPAN_TOKENS is of the tokenizer's own tokens, those of whitespace too."""
    ids = tokenizer(" " + quote.strip(), add_special_tokens=False)["input_ids"]
    texts = [tokenizer.decode([token_id]) for token_id in ids]
    assert len(tokenize(quote)) in (len(texts), len(texts) - 1)  # the space before it may be a token
    assert verbatim("a\n" * MIN_SPAN_TOKENS, "a\n" * MIN_SPAN_TOKENS, tokenize) == 1.0


@given(st.lists(st.sampled_from(["Café", "ṩang", "각", "and", "Å.", "naïve"]), min_size=10, max_size=20))
def test_composed_and_decomposed_unicode_are_one(tokenize, words):
    passage = " ".join(words)
    quote = unicodedata.normalize("NFD", passage)
    assert tokenize(quote) == tokenize(passage)
    assert verbatim(quote, passage, tokenize) == verbatim(passage, quote, tokenize) == 1.0


def test_different_bytes_stay_different(tokenize):
    assert tokenize("é") != tokenize("è") and tokenize("日本") != tokenize("日木")


def test_half_an_emoji_costs_a_quote_no_more_than_its_token(tokenize):
    sentence = ASKED[0].passage
    whole, broken = tokenize(sentence), tokenize(sentence + " \ud83d")
    assert broken[: len(whole)] == whole
