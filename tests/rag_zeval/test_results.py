"""Result rows: read back as answers, and summed up: in columns for each metric and system, in slices and in costs.

A price list is read or refused by file, model and field; what is not known costs nothing made up.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.budget import NOT_ASKED, Price
from rag_zeval.errors import InputError
from rag_zeval.evaluation.output import print_summary
from rag_zeval.files import Row, json_line
from rag_zeval.models.embeddings import Embedding
from rag_zeval.models.language_model import Reply
from rag_zeval.results import SPENT, check_costs, judge_of, over_trials, read_judged
from rag_zeval.scorers.score import Scored, costs, paid_tokens
from rag_zeval.scoring.prices import price_of, read_prices
from rag_zeval.scoring.spending import UNNAMED, Spending, spent_before
from rag_zeval.scoring.summary import Column, cost_lines, logged_numbers, summarize

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


def shown_costs(rows: list[Row]) -> dict[str, str]:
    spending = Spending({UNNAMED: Price(1.0, 2.0)})
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


def test_a_pipe_is_no_result_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device, which can be read only once"):
        read_judged(tmp_path / "pipe")


@pytest.mark.parametrize("metric", ["m", "ragchecker_hallucination@truth"])  # of the second, less is better
def test_slices_come_worst_first_and_those_without_a_score_last(metric: str) -> None:
    tags = {"a": "good", "b": "bad", "c": None, "d": "silent"}
    scores = {"a": 0.9, "b": 0.1, "c": 0.5, "d": None}
    if metric != "m":
        scores |= {"a": 0.1, "b": 0.9}
    rows = [result(case, scores[case], slice_tag=tag, metric=metric) for case, tag in tags.items()]
    assert [one.slice_tag for one in summarize(rows).slices] == ["bad", "(none)", "good", "silent"]
    assert not summarize([result("a", 1.0), result("b", 1.0)]).slices


@pytest.mark.parametrize(("systems", "shown", "left"), [(2, 8, 0), (3, 6, 6), (30, 1, 210)])
def test_a_terminal_shows_the_worst_slices_and_counts_the_others(
    systems: int, shown: int, left: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = [f"slice {at}" for at in range(8)]  # the first is the worst
    rows = [result(tag, *[at / 8] * systems, slice_tag=tag) for at, tag in reversed(list(enumerate(tags)))]
    print_summary(summarize(rows), Spending(), {})
    printed = capsys.readouterr().out
    assert [printed.count(tag) for tag in tags] == [systems] * shown + [0] * (8 - shown)
    assert (f"{left} more rows by slice: see the report" in printed) == bool(left)


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
        ([{}, {"paid_tokens": [9, 0], "model": None}, {"paid_tokens": None, "model": None}], "10 in, 2 out", "0.0000"),
        ([{"bounded": 1}, {"paid_tokens": None}], "at least 10 in, at least 2 out", "at least 0.0000"),
    ],
)
def test_unknown_tokens_are_no_number(rows: list[Row], tokens: str, dollars: str) -> None:
    lines = shown_costs([result(str(at), 1.0, **more) for at, more in enumerate(rows)])
    assert (lines["tokens"], lines["dollars"]) == (tokens, dollars)


def test_what_replaced_rows_cost_stays_counted() -> None:
    old = result("c", None, paid_tokens=None)
    rows = {row["id"]: row for row in (result("a", 1.0), result("b", None, bounded=2), old)}
    kept = spent_before(rows, ["b|m#0", "c|m#0"])
    assert [kept[name] for name in ("id", "calls", "paid_tokens", "bounded", "untold")] == [SPENT, 2, [10, 2], 2, 1]
    again = spent_before({**rows, SPENT: kept}, ["b|m#0"])
    assert [again[name] for name in ("calls", "paid_tokens", "bounded", "untold")] == [3, [20, 4], 4, 1]
    read = Scored.from_row(again)  # the bench reads it with its rows
    assert (read.scores, read.calls, read.paid_tokens, read.bounded, read.prompt_tokens) == ((), 3, (20, 4), 4, None)


@pytest.mark.parametrize(
    "told",
    [
        {"by_judge": {"x": [-1, 0]}},
        {"by_judge": {"x": []}},
        {"calls": -1},
        {"paid_tokens": [1]},
        {"paid_tokens": [-(10**6), 0]},
        {"bounded": "1"},
        {"embedded": -1},
    ],
)
def test_a_doctored_row_gives_no_money_back(told: Row) -> None:
    with pytest.raises(InputError, match=f"field '{next(iter(told))}'"):
        check_costs({**result("a", 1.0), **told})
    assert check_costs(result("a", 1.0)) and check_costs({"id": SPENT, "calls": 1, "paid_tokens": None})


def test_a_temperature_is_told_only_of_the_scorer_that_samples_with_it() -> None:
    asked = {"model": "gpt", "prompt_hash": "ab", "sampling": {"temperature": 0.5, "top_p": 0.9, "seed": 3}}
    assert judge_of(result("1", 1.0, **asked)) == "m: gpt, prompt hash ab, seed 3"
    told = "m: gpt, prompt paper, prompt hash ab, temperature 0.5, top_p 0.9, seed 3"
    assert judge_of(result("1", 1.0, variant="paper", **asked)) == told


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


def test_an_answer_counts_once_however_many_of_its_trials_have_a_score() -> None:
    """So the mean of `evaluate` and the report is that of `compare`, which reads each answer's mean over its trials."""
    trials = {"a": (1.0, 1.0, 1.0), "b": (0.0, None, None), "c": (0.5, None, 0.0)}
    rows = [result(case, score, trial=at) for case, of in trials.items() for at, score in enumerate(of)]
    whole, of_answers = column(rows), logged_numbers(over_trials(rows))
    assert whole.ci and [whole.mean, *whole.ci] == [*of_answers.values()][:3]
    assert whole.mean == pytest.approx(1.25 / 3)
    assert (whole.scored, whole.answers) == (6, 9)


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
        ({"chunks": [3]}, "field 'chunks': item 1 must be str, found int"),
        ({"identity": ["i"]}, "field 'identity' must be str or NoneType, found list"),
        ({"trial": -1}, "field 'trial' must be a whole number, 0 or more"),
        ({"latency_s": 1e308}, "field 'latency_s' must be a number below 2^63"),
        ({"systems": ["s", "s"]}, "field 'systems' must name each of its systems once"),
        ({"answers": ["a"]}, "field 'answers': has 1, must have one for each of 'systems'"),
        ({"scores": [True, None]}, "field 'scores': item 1 must be int or float or NoneType, found bool"),
        ({"statuses": ["ok", None]}, "field 'statuses': item 2 must be str, found NoneType"),
        ({"trajectory": [None]}, "field 'trajectory': has 1, must have one for each of 'systems'"),
        (
            {"trajectory": [None, {"atomic_claims": [{**CLAIM, "claim": 1}]}]},
            "field 'trajectory': item 2: field 'atomic_claims': item 1: field 'claim' must be str, found int",
        ),
        (
            {"trajectory": [None, {"atomic_claims": [{**CLAIM, "grounding_evidence": [1]}]}]},
            "field 'trajectory': item 2: field 'atomic_claims': item 1: field 'grounding_evidence': item 1 must be str",
        ),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path: Path, change: Row, said: str) -> None:
    path = write(tmp_path / "r.jsonl", [result("a", 1.0, None), {**result("b", 1.0, None), **change}])
    with pytest.raises(InputError) as error:
        read_judged(path)
    assert str(error.value).startswith(f"{path}:2: {said}")


@pytest.mark.parametrize("id_", ["a|m#0", "another"])
def test_a_score_stands_once(tmp_path: Path, id_: str) -> None:
    path = write(tmp_path / "r.jsonl", [result("a", 1.0), result("a", 0.5, trial=1), {**result("a", 0.0), "id": id_}])
    with pytest.raises(InputError, match=r"r.jsonl:3: .* line 1: remove one$"):
        read_judged(path)


def test_a_file_without_rows_or_fields_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        read_judged(write(tmp_path / "r.jsonl", []))
    with pytest.raises(InputError, match=":1: field 'case' is missing: name a result file"):
        read_judged(write(tmp_path / "r.jsonl", [{"id": "x"}]))


def test_a_price_is_found_by_the_endpoints_name_or_by_the_whole_spec(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    dear, free = {"prompt": 2, "completion": 8.5}, {"prompt": 0, "completion": 0}
    path.write_text(json.dumps({"big": dear, "folder/7b": free, "openai:big@http://other/v1": free}))
    prices = read_prices(path)
    assert price_of("openai:big@http://host/v1", prices) == Price(2.0, 8.5)
    assert price_of("openai:big@http://other/v1", prices) == Price(0.0, 0.0)
    assert price_of("folder/7b", prices) == Price(0.0, 0.0)
    assert [price_of(spec, prices) for spec in ("openai:small@http://host/v1", "elsewhere", None)] == [None] * 3


def test_what_is_paid_is_that_of_both_kinds_of_tokens_and_unknown_where_one_is() -> None:
    assert Price(2.0, 8.5).paid((1_000_000, 2_000_000)) == 19.0
    assert Price(2.0, 8.5).paid([500, 0]) == 0.001
    assert Price(2.0, 8.5).paid(None) is None


def test_all_calls_to_the_judge_are_paid_for_and_nothing_else() -> None:
    told, cached = Reply("x", "ok", 7, 5, calls=1), Reply("x", "ok", 7, 5, cached=True)
    lost, vector = Reply(None, "failed: HTTP 500", calls=6), Embedding("", "ok", 3, calls=1)
    bounded = Reply(None, "failed: no answer", calls=2, paid_tokens=(100, 50), bounded=1)
    unasked = Reply(None, NOT_ASKED)
    assert paid_tokens([told, cached, lost, vector, told, unasked]) == (14, 10)
    assert paid_tokens([told, bounded]) == (107, 55)
    assert paid_tokens([replace(bounded, calls=0)]) == (0, 0)  # the same question's other asker pays
    assert paid_tokens([told, Reply("x", "ok", 7, None, calls=1)]) is None
    assert paid_tokens([vector]) == (3, 0) and paid_tokens([]) == (0, 0)
    counted = costs([told, bounded, unasked])
    assert (counted["bounded"], counted["unasked"], counted["failures"], counted["final"]) == (1, 1, 2, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "prices.json:1: not valid JSON"),
        ({"m": 3}, "model 'm': expected a JSON object, found int"),
        ({"m": {"prompt": 1}}, "model 'm': field 'completion' is missing"),
        ({"m": {"prompt": -1, "completion": 1}}, "model 'm': a price must be from 0 to 1,000,000, found [-1, 1]"),
        ({"m": {"prompt": 1, "completion": float("nan")}}, "not valid JSON: NaN is not a number"),
    ],
)
def test_a_bad_list_is_one_line(content: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as error:
        read_prices(path)
    assert str(error.value).startswith(f"{path}:") and said in str(error.value)
