"""The speed measurements at toy size: both sides agree, and the table shows them."""

import os
import re
from functools import partial
from pathlib import Path

import pytest

from experiments.timing import decoding_speed as speed
from experiments.timing.pairs import TimedPairs, table, total

QUESTIONS = Path(os.environ.get("RAG_ZEVAL_DATA", "data")) / "natural_questions"
MODEL = Path("models/SmolLM2-135M-Instruct")


def test_both_sides_agree_and_the_table_shows_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(
        speed.MEASUREMENTS, "cad", partial(speed.cad, questions=1, passage_tokens=20, new_tokens=3, pairs=1)
    )
    monkeypatch.setitem(speed.MEASUREMENTS, "evidence", partial(speed.evidence, references=1, quotes=6, pairs=1))
    assert speed.main([]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"^\| (\w+) \|.*\| yes, within 0e\+00 \|$", shown, re.M) == ["cad", "evidence"]


@pytest.mark.skipif(not (QUESTIONS.is_dir() and MODEL.is_dir()), reason="needs `make model` and real questions")
def test_a_real_model_writes_the_same_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers would end at different places, so that neither side may end one."""
    monkeypatch.setattr(speed, "ALPHAS", (0.0, -1.4))  # transformers reads the passage for each
    monkeypatch.setattr(speed, "time_in_turn", lambda name, theirs, ours, differ, pairs: differ(theirs(), ours()))
    assert speed.cad_real(questions=1, new_tokens=32) == 0


def test_a_table_has_medians_over_pairs_and_says_where_results_differ() -> None:
    slow = TimedPairs("slow", [(4.0, 2.0), (9.0, 3.0), (8.0, 1.0)], 0.0)
    unequal = TimedPairs("unequal", [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)], 0.5)
    assert table([slow, unequal, total("both", [slow, unequal])], "plain").splitlines() == [
        "| | plain | ours | ratio | same result |",
        "|---|---:|---:|---:|---|",
        "| slow | 8.00 s | 2.00 s | 3.00 | yes, within 0e+00 |",
        "| unequal | 2.00 s | 0.00 s |  | NO, within 5e-01 |",
        "| both | 11.00 s | 2.00 s | 3.67 | NO, within 5e-01 |",
    ]
