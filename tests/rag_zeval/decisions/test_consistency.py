"""How steady a system is: figures by hand and by scipy, runs in one file and in several."""

import itertools
import json
import random
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rag_zeval.decisions.consistency import ANSWERS, Steadiness, steadiness
from rag_zeval.scripted_judge import ScriptedJudge
from rag_zeval.statistics.bootstrap import share_interval


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def by_metric(*specs: str) -> dict[str, Steadiness]:
    return {one.metric: one for one in steadiness(specs, 2)}


SCORES = [[round(random.Random(9 * question + run).random(), 2) for run in range(3)] for question in range(9)]


def test_the_figures_are_those_of_the_definitions(tmp_path: Path, result_row: Any) -> None:
    specs = []
    for run in range(3):
        rows = [
            result_row(str(question), "m", of[run], answers=[f"Ann has {run % 2} cats."])
            for question, of in enumerate(SCORES)
        ]
        specs.append(write(tmp_path / f"run{run}", [*rows, result_row("lost", "m", 0.5 if run else None)]))
    found = by_metric(*specs)
    steady = found["m"]
    assert (steady.runs, steady.questions) == (3, 10) and set(found) == {"m", ANSWERS}
    everything = [*SCORES, [0.5, 0.5]]
    spreads = [statistics.pstdev(of) for of in everything]
    assert steady.mean and steady.mean[0] == pytest.approx(statistics.fmean(x for of in everything for x in of))
    assert steady.spread and steady.spread[0] == pytest.approx(statistics.fmean(spreads))
    index = statistics.fmean(statistics.fmean(of) / (1 + statistics.pstdev(of)) for of in SCORES)  # of three runs
    assert steady.index and steady.index[0] == pytest.approx(index)
    columns = list(zip(*SCORES, strict=True))
    taus = [stats.kendalltau(x, y).statistic for x, y in itertools.combinations(columns, 2)]
    assert steady.ranks and steady.ranks[0] == pytest.approx(statistics.fmean(taus))
    for one in (steady.mean, steady.spread, steady.index, steady.ranks):
        assert one[1] and one[1][0] <= one[0] <= one[1][1]
    widest = max(range(9), key=lambda question: spreads[question])
    assert steady.widest[0] == (f"Question {widest}?", SCORES[widest]) and len(steady.widest) == 2
    alike = found[ANSWERS].mean  # of Ann has 0, 1 and 0 cats: four words, of which three are the same, or all four
    assert alike and alike[0] == pytest.approx((9 * (0.75 + 1 + 0.75) + 3) / 30) and found[ANSWERS].ranks is None


def test_two_runs_have_no_index_and_equal_scores_no_ranks(tmp_path: Path, result_row: Any) -> None:
    specs = [
        write(tmp_path / f"run{run}", [result_row(case, "m", 1.0, answers=[("It is", "It was")[run]]) for case in "ab"])
        for run in range(2)
    ]
    steady = by_metric(*specs)["m"]
    assert steady.mean == (1, share_interval(2, 2))  # as in `metrics` and `evaluate`: two questions prove little
    assert steady.spread == (0, (0, 0)) and steady.index is steady.ranks is None and not steady.widest
    answers = by_metric(*specs)[ANSWERS]  # each two are alike in one word of two
    assert (answers.questions, answers.mean, answers.spread) == (2, (0.5, (0.5, 0.5)), None) and not answers.widest


def test_answers_without_a_word_are_compared_with_none(tmp_path: Path, result_row: Any) -> None:
    of_runs = [("Yes.", "✓"), ("Yes.", "✓"), ("Yes.", "")]
    specs = [
        write(tmp_path / f"run{run}", [result_row(str(at), "m", 1.0, answers=[answer]) for at, answer in enumerate(of)])
        for run, of in enumerate(of_runs)
    ]
    answers = by_metric(*specs)[ANSWERS]
    assert answers.questions == 1 and answers.mean and answers.mean[0] == 1


def test_equal_scores_do_not_differ_by_rounding(tmp_path: Path, result_row: Any) -> None:
    specs = [write(tmp_path / f"run{run}", [result_row("a", "m", 0.1)]) for run in range(3)]
    assert np.std([0.1] * 3) > 0 and not by_metric(*specs)["m"].widest


def test_runs_of_a_query_are_read_from_open_rag_evals_csv(
    run: Any, tmp_path: Path, literal_judge: ScriptedJudge
) -> None:
    lines = ["query_id,query,query_run,passage_id,passage,generated_answer"]
    for query, number in itertools.product("abc", (1, 2, 3)):
        answer = f"Ann has {query} cats." if number < 3 or query == "a" else "Bob has no dogs."
        lines.append(f"{query},What of {query}?,{number},[1],Ann has {query} cats.,{answer}")
    (tmp_path / "answers.csv").write_text("\n".join(lines) + "\n")
    assert run("evaluate", "answers.csv", "--model", literal_judge.spec(), "--out=r").returncode == 0
    steady = by_metric(str(tmp_path / "r"))["rag_zeval@contexts"]
    assert (steady.runs, steady.questions) == (3, 3) and steady.mean and steady.mean[0] == pytest.approx(7 / 9)
    assert steady.widest == [("What of b?", [1, 1, 0]), ("What of c?", [1, 1, 0])]
    done = run("consistency", "r", "--show=1")
    assert done.returncode == 0 and "rag_zeval@contexts" in done.stdout, done.stderr
    assert "What of b?" in done.stdout and "What of c?" not in done.stdout and "1.000, 1.000, 0.000" in done.stdout


def test_what_was_asked_once_says_what_to_do(run: Any, tmp_path: Path, result_row: Any) -> None:
    other = result_row("a#2", "m", 1.0, question="Another?")  # an id that looks like a repetition, and is none
    write(tmp_path / "r", [result_row("a", "m", 1.0), other])
    refused = run("consistency", "r")
    assert refused.returncode == 2 and refused.stderr.startswith("error: r: no question was answered twice")
    write(tmp_path / "s", [result_row("a", "m", 1.0, question="Another?")])
    assert "s: comes from a different input" in run("consistency", "r", "s").stderr
    assert (
        run("consistency", "r", "./r").stderr == "error: consistency: the same result file is given twice; remove one\n"
    )
