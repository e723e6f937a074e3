"""Does a short answer that people gave stand in a text? As the evaluation of open-domain question answering has it."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def answer_words(text: str) -> list[str]:
    """Words in lower case, without articles and punctuation (the normalisation of SQuAD's evaluation script).

    A mark becomes a space here, where the script takes it away: "well-known" is two words.
    """
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def contains_answer(text: str, gold_answers: Sequence[str]) -> bool:
    """Whether one of the gold answers stands in a text, word for word; one without any word stands nowhere."""
    words = f" {' '.join(answer_words(text))} "
    return any(f" {' '.join(gold)} " in words for gold in map(answer_words, gold_answers) if gold)
