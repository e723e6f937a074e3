"""The summary of result rows, and which of them a run tries again."""

from __future__ import annotations

from typing import Any

import pytest

from rag_zeval.report import summary_lines
from rag_zeval.results import summarize


def result(example: str, *scores: float | None, trial: int = 0, status: str = "ok", **more: Any) -> dict[str, Any]:
    accounting = {"calls": 1, "prompt_tokens": 10, "completion_tokens": 2, "cached": False, **more}
    return {"example": example, "trial": trial, "scores": list(scores), "status": status, **accounting}


def test_a_missing_score_is_no_number() -> None:
    found = summarize([result("a", 1.0, None), result("b", None, None, status="failed: x"), result("c", 0.5, 0.0)])
    assert (found.rows, found.answers, found.scored, found.mean, found.coverage) == (3, 6, 3, 0.5, 0.5)
    assert found.statuses == {"ok": 2, "failed: x": 1} and found.trial_sd is None
    none = summarize([result("a", None)])
    assert (none.mean, none.ci, none.coverage) == (None, None, 0.0)


UNTOLD = {"prompt_tokens": None, "completion_tokens": None}
REFUSED = {"calls": 0, **UNTOLD}
CACHED = {"calls": 0, "cached": True}


@pytest.mark.parametrize(
    ("rows", "tokens", "shown"),
    [
        ([{}, {}], (20, 4), "20 in, 4 out"),
        ([UNTOLD, UNTOLD], (None, None), "unknown in, unknown out"),
        ([{"completion_tokens": None}], (10, None), "at least 10 in, unknown out"),
        ([{}, UNTOLD], (10, 2), "at least 10 in, at least 2 out"),
        ([{}, REFUSED, CACHED], (10, 2), "10 in, 2 out"),  # neither cost anything
        ([CACHED, CACHED | UNTOLD], (0, 0), "0 in, 0 out"),
    ],
)
def test_unknown_tokens_are_no_number(rows: list[dict[str, Any]], tokens: tuple[Any, Any], shown: str) -> None:
    found = summarize([result(str(i), 1.0, **more) for i, more in enumerate(rows)])
    assert (found.prompt_tokens, found.completion_tokens) == tokens
    assert dict(summary_lines(found))["tokens"] == shown


def test_statuses_that_differ_in_numbers_are_one() -> None:
    long = [f"failed: reference needs {n} tokens" for n in (15, 20, 15, 300)]
    statuses = ["failed: HTTP 500: no", "ok", *long, "failed: HTTP 500: no"]
    found = summarize([result(str(i), None, status=status) for i, status in enumerate(statuses)]).statuses
    assert list(found.items()) == [
        ("ok", 1),
        ("failed: reference needs 15 tokens (and 2 like it)", 4),
        ("failed: HTTP 500: no", 2),
    ]


def test_the_interval_treats_an_example_as_one_draw() -> None:
    """Ten copies of each answer add no knowledge: the interval must stay as wide."""
    once = summarize([result(str(i), float(i % 2)) for i in range(30)]).ci
    copied = summarize([result(str(i), *[float(i % 2)] * 10) for i in range(30)]).ci
    assert once == copied
    over_trials = [result(str(i), float(i % 2), trial=trial) for i in range(30) for trial in range(3)]
    assert summarize(over_trials).ci == once and summarize(over_trials).trial_sd == 0
