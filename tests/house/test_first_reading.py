"""A newcomer's five questions are answered at the top of the README, in words that docs/first-reading.md quotes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST_SCREEN = 60
QUESTIONS = re.findall(r"^## (.+?\?)\n(.*?)(?=^## |\Z)", (ROOT / "docs/first-reading.md").read_text(), re.M | re.S)


def words(text: str) -> str:
    return " ".join(text.split())


def test_there_are_five_questions() -> None:
    assert len(QUESTIONS) == 5


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_the_readme_answers_on_its_first_screen(question: str, answer: str) -> None:
    first = words("\n".join((ROOT / "README.md").read_text().splitlines()[:FIRST_SCREEN]))
    quotes = re.findall(r"(?:^> .*\n)+", answer, re.M)
    assert quotes
    for quote in quotes:
        assert words(re.sub(r"^> ", "", quote, flags=re.M)) in first
