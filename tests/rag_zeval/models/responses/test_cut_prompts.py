import base64
import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.models.responses.cut_prompts import least_tokens

# Where the tokenizers of GPT, Llama 3, Qwen and others let a token begin at the latest: each piece is one at least.
PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
LONGEST_CJK = 11  # characters of a token in o200k and in Qwen's vocabulary: "ありがとうございました"


def fewest(text: str) -> float:
    """The fewest tokens of any such tokenizer, were every piece in its vocabulary."""
    return len(PIECE.findall(text)) + len(CJK.findall(text)) / LONGEST_CJK


RNG = random.Random(0)
ADVERSARIAL = {
    "spaces": " " * 100_000,
    "spaced dots": ". " * 50_000,
    "dots": "." * 100_000,
    "one word": "no " * 30_000,
    "one line": "the same line again\n" * 5_000,
    "one letter words": " ".join(RNG.choices(string.ascii_letters, k=20_000)),
    "words that are tokens": " ".join(RNG.choices([f"w{at}" for at in range(5_000)], k=50_000)),
    "spaces between": "".join(word + " " * RNG.randrange(1, 80) for word in RNG.choices(string.printable, k=5_000)),
    "base64": base64.b64encode(RNG.randbytes(75_000)).decode(),
    "base64 in lines": base64.encodebytes(RNG.randbytes(75_000)).decode(),
    "hex": RNG.randbytes(50_000).hex(),
    "minified": ";".join(f"a[{at}]=b({at})" for at in range(10_000)),
    "code": "\n".join(f"{' ' * 40}x_{at} = call(y_{at})" for at in range(3_000)),
    "Chinese": "".join(RNG.choices([chr(at) for at in range(0x4E00, 0x9000)], k=50_000)),
    "long Japanese tokens": "".join(RNG.choices(["ありがとうございました", "お願いいたしますですよ"], k=5_000)),
    "Thai": "".join(RNG.choices([chr(at) for at in range(0x0E01, 0x0E2F)], k=50_000)),
    "emoji": "\U0001f600" * 50_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_tokenizer_makes_fewer_tokens_of_any_text(name: str) -> None:
    assert least_tokens(ADVERSARIAL[name]) <= fewest(ADVERSARIAL[name])


@given(st.text() | st.text("ab. \n\t中の가"))
def test_nor_of_short_ones(text: str) -> None:
    assert least_tokens(text) <= fewest(text)


def test_of_plain_text_more_than_half_of_the_words_are_sure() -> None:
    words = [f"{a}{b}{c}ing" for a in "bdfgk" for b in "aeiou" for c in "lmnprst"]
    prose = " ".join(RNG.choices(words, k=6_000))  # no tokenizer makes less than a token of each
    assert least_tokens(prose) > 3_500
    assert least_tokens(ADVERSARIAL["Chinese"]) > 4_000
