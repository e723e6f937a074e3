"""Result rows: read back as answers, and summed up in columns for each metric and system, in slices and in costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_zeval.budget import Price
from rag_zeval.errors import InputError
from rag_zeval.files import Row, json_line
from rag_zeval.results import SPENT, read_judged
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.spending import Spending, spent_before
from rag_zeval.scoring.summary import Column, cost_lines, summarize

CLAIM = {"claim": "c", "is_supported": True, "grounding_evidence": [], "analysis": ""}


def result(case: str, *scores: float | None, trial: int = 0, status: str = "ok", **more: Any) -> Row:
    systems = [f"s{at}" for at in range(len(scores))]
    return {
        "id": f"{case}|m#{trial}", "case": case, "metric": "m", "trial": trial, "slice_tag": None, "systems": systems,
        "question": "q", "reference": "r", "answers": [f"a{at}" for at in range(len(scores))], "scores": list(scores),
        "statuses": [status] * len(scores), "status": status, "trajectory": None, "calls": 1, "cached": 0,
        "paid_tokens": [10, 2], "latency_s": None, **more,
    }  # fmt: skip


def column(rows: list[Row]) -> Column:
    (only,) = summarize(rows).columns
    return only


def costs(rows: list[Row]) -> dict[str, str]:
    spending = Spending(Price(1.0, 2.0))
    for row in rows:
        spending.add(row)
    return dict(cost_lines(summarize(rows), spending))


def test_systems_and_metrics_are_columns_and_a_missing_score_is_no_number() -> None:
    rows = [result("a", 1.0, None), result("b", None, None, status="failed: x"), result("c", 0.5, 0.0)]
    first, second, other = summarize([*rows, result("a", 0.25, metric="n")]).columns
    assert [(c.metric, c.system) for c in (first, second, other)] == [("m", "s0"), ("m", "s1"), ("n", "s0")]
    assert (first.mean, first.scored, first.answers, first.trial_sd) == (0.75, 2, 3, None)
    assert (second.mean, second.ci, second.coverage) == (0.0, None, 1 / 3)
    assert (column([result("a", None)]).mean, column([result("a", None)]).coverage) == (None, 0.0)


def test_slices_come_worst_first_and_those_without_a_score_last() -> None:
    tags = {"a": "good", "b": "bad", "c": None, "d": "silent"}
    scores = {"a": 0.9, "b": 0.1, "c": 0.5, "d": None}
    found = summarize([result(case, scores[case], slice_tag=tag) for case, tag in tags.items()]).slices
    assert [one.slice_tag for one in found] == ["bad", "(none)", "good", "silent"]
    assert not summarize([result("a", 1.0), result("b", 1.0)]).slices


@pytest.mark.parametrize(
    ("rows", "tokens", "dollars"),
    [
        ([{}, {}], "20 in, 4 out", "0.0000"),
        ([{"paid_tokens": None}] * 2, "unknown", "at least 0.0000"),
        ([{}, {"paid_tokens": None}], "at least 10 in, at least 2 out", "at least 0.0000"),
        ([{}, {"calls": 0, "paid_tokens": None}, {"calls": 0, "cached": 1}], "20 in, 4 out", "0.0000"),
        ([{"paid_tokens": [500_000, 250_000]}], "500000 in, 250000 out", "1.0000"),
        (
            [{}, {"paid_tokens": [500_000, 250_000], "bounded": 1}],
            "at most 500010 in, at most 250002 out",
            "at most 1.0000",
        ),
        ([{"bounded": 1}, {"paid_tokens": None}], "at least 10 in, at least 2 out", "at least 0.0000"),
    ],
)
def test_unknown_tokens_are_no_number(rows: list[Row], tokens: str, dollars: str) -> None:
    lines = costs([result(str(at), 1.0, **more) for at, more in enumerate(rows)])
    assert lines.get("tokens paid for", lines.get("tokens")) == tokens and lines["dollars"] == dollars


def test_what_replaced_rows_cost_stays_counted() -> None:
    old = result("c", None, paid_tokens=None)
    rows = {row["id"]: row for row in (result("a", 1.0), result("b", None, bounded=2), old)}
    kept = spent_before(rows, ["b|m#0", "c|m#0"])
    assert [kept[name] for name in ("id", "calls", "paid_tokens", "bounded", "untold")] == [SPENT, 2, [10, 2], 2, 1]
    again = spent_before({**rows, SPENT: kept}, ["b|m#0"])
    assert [again[name] for name in ("calls", "paid_tokens", "bounded", "untold")] == [3, [20, 4], 4, 1]
    read = Scored.from_row(again)  # the bench reads it with its rows
    assert (read.scores, read.calls, read.paid_tokens, read.bounded, read.prompt_tokens) == ((), 3, (20, 4), 4, None)


def test_statuses_that_differ_in_numbers_are_one() -> None:
    long = [f"failed: reference needs {n} tokens" for n in (15, 20, 15, 300)]
    statuses = ["failed: HTTP 500: no", "ok", *long, "failed: HTTP 500: no"]
    found = summarize([result(str(i), None, status=status) for i, status in enumerate(statuses)]).statuses
    assert list(found.items()) == [
        ("ok", 1),
        ("failed: reference needs 15 tokens (and 2 more like it)", 4),
        ("failed: HTTP 500: no", 2),
    ]


def test_the_interval_treats_a_case_as_one_draw() -> None:
    """Copies of each answer add no knowledge: the interval must stay as wide."""
    once = column([result(str(i), float(i % 2)) for i in range(30)]).ci
    over_trials = column([result(str(i), float(i % 2), trial=trial) for i in range(30) for trial in range(3)])
    assert over_trials.ci == once and over_trials.trial_sd == 0


def write(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(b"".join(map(json_line, rows)))
    return path


def test_answers_are_read_back_over_their_trials(tmp_path: Path) -> None:
    rows = [
        result("a", None, 0.5, status="failed: x"),
        result("a", 1.0, None, trial=1, trajectory=[{"atomic_claims": [CLAIM]}, {"atomic_claims": []}]),
        {"id": SPENT, "calls": 1, "paid_tokens": [1, 1], "untold": 0},
        result(
            "b", None, None, status="failed: y", slice_tag="s", latency_s=0.5, trajectory=[None, {"atomic_claims": []}]
        ),
    ]
    first, second, third, fourth = read_judged(write(tmp_path / "r.jsonl", rows))
    assert (first.case, first.system, first.answer, first.score, first.status) == ("a", "s0", "a0", 1.0, "ok")
    assert first.claims == (CLAIM,) and (second.score, second.claims) == (0.5, None)
    assert (third.score, third.status, third.slice_tag, third.latency_s) == (None, "failed: y", "s", 0.5)
    assert (third.claims, fourth.claims) == (None, ())  # one was not judged, the other says nothing
    # what it was judged by is not told in files of before that was kept
    assert (first.reference, first.reference_kind, first.chunks) == ("r", None, ())
    assert first.sources == [("reference", "r")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": 7}, "field 'question' must be str, found int"),
        ({"reference_kind": 3}, "field 'reference_kind' must be str or NoneType"),
        ({"chunks": "c"}, "field 'chunks' must be list"),
        ({"chunks": [3]}, "field 'chunks': must be a list of strings"),
        ({"answers": ["a"]}, "field 'answers': has 1, must have one for each of 'systems'"),
        ({"scores": [True, None]}, "field 'scores': holds True"),
        ({"statuses": ["ok", None]}, "field 'statuses': holds None"),
        ({"trajectory": [None]}, "field 'trajectory': has 1, must have one for each of 'systems'"),
        (
            {"trajectory": [None, {"atomic_claims": [{**CLAIM, "claim": 1}]}]},
            "field 'trajectory': field 'claim' must be str, found int",
        ),
        (
            {"trajectory": [None, {"atomic_claims": [{**CLAIM, "grounding_evidence": [1]}]}]},
            "field 'trajectory': field 'grounding_evidence': must be a list of strings",
        ),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path: Path, change: Row, said: str) -> None:
    path = write(tmp_path / "r.jsonl", [result("a", 1.0, None), {**result("b", 1.0, None), **change}])
    with pytest.raises(InputError) as error:
        read_judged(path)
    assert str(error.value).startswith(f"{path}:2: {said}")


def test_a_file_without_rows_or_fields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        read_judged(write(tmp_path / "r.jsonl", []))
    with pytest.raises(InputError, match=":1: field 'case' is missing"):
        read_judged(write(tmp_path / "r.jsonl", [{"id": "x"}]))
