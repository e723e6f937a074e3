"""The nano tokenizer gives back any text, joins prompt and reply cleanly, and has no unknown words in its world."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

from train.nano.tasks import answering, judging
from train.nano.tokenizer import END, build_tokenizer

FIRST_WORD = 3 + 256  # special tokens, then bytes


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@given(text=st.text())
def test_any_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("seed", range(20))
def test_samples_are_words_and_the_reply_starts_on_a_token_border(tokenizer, seed):
    rng = random.Random(seed)
    for sample in (judging(rng, 4), answering(rng, with_passage=True), answering(rng, with_passage=False)):
        message = [{"role": "user", "content": sample.prompt}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        first, second = (tokenizer(text)["input_ids"] for text in (prompt, sample.reply + END))
        assert tokenizer(prompt + sample.reply + END)["input_ids"] == first + second
        assert not [i for i in first + second if 3 <= i < FIRST_WORD]


def test_the_saved_tokenizer_loads_as_the_same_one(tokenizer, tmp_path):
    from transformers import AutoTokenizer, LlamaConfig

    tokenizer.save_pretrained(tmp_path)
    LlamaConfig().save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = judging(random.Random(0), 2).prompt
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (loaded.eos_token, loaded.pad_token) == (tokenizer.eos_token, tokenizer.pad_token)
