"""Which metrics tell something: against scipy and brute force, and from result files to tables, page and CSV."""

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rag_zeval.csv_files import sheet_rows
from rag_zeval.decisions import metric_validity
from rag_zeval.decisions.metric_validity import Scores, correlation, of_metric, read_columns
from rag_zeval.scorers.registry import best_value
from rag_zeval.statistics.bootstrap import multiplicities
from rag_zeval.statistics.discriminative_power import discriminative_power


def scores(seed: int, cases: int = 12, noise: float = 0.4) -> Scores:
    """Two answers a case, of which some have no score; the same truth below all seeds."""
    truth, drawn = random.Random(0), random.Random(seed)
    found: dict[tuple[str, str, str], float | None] = {}
    for case in range(cases):
        for system in ("old", "new"):
            value = round(truth.random() + drawn.gauss(0, noise), 1)
            found[str(case), system, "a"] = None if drawn.random() < 0.1 else value
    return found


def test_tau_is_scipys_and_its_interval_draws_whole_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_validity, "RESAMPLES", 60)
    columns = {"a": scores(1), "b": scores(2)}
    both = [key for key in columns["a"] if columns["a"][key] is not None and columns["b"][key] is not None]
    x, y = (np.array([columns[name][key] for key in both], dtype=float) for name in "ab")
    found = correlation("a", "b", columns)
    assert (found.n, found.value) == (len(both), pytest.approx(stats.kendalltau(x, y).statistic))
    cases = sorted({case for case, _, _ in both})
    drawn = []
    for times in multiplicities(len(cases), 60, 0).astype(int):
        rows = np.repeat(np.arange(len(both)), [times[cases.index(case)] for case, _, _ in both])
        drawn.append(stats.kendalltau(x[rows], y[rows]).statistic)
    assert found.interval == pytest.approx(np.percentile(drawn, [2.5, 97.5]))


def test_of_many_answers_whole_cases_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_validity, "MOST", 11)
    everything = dict.fromkeys(scores(1), 1.0)
    chosen = metric_validity._some([*everything])
    assert len(chosen) == 10 and all(
        (case, system, "a") in chosen for case, _, _ in chosen for system in ("old", "new")
    )


def test_all_answers_of_a_system_decide_whether_it_is_told_apart_whichever_comes_first() -> None:
    versions = [
        {(str(case), system, text): value for case in range(20) for system, value in values.items()}
        for text, values in (("a", {"s": 1.0, "t": 0.0}), ("b", {"s": 0.5, "t": 0.5}))
    ]
    for first, second in (versions, versions[::-1]):
        assert {one.what: one.value for one in of_metric("m", {**first, **second})}[metric_validity.APART] == 1


def test_a_metric_has_its_mean_its_perfect_answers_and_the_pairs_it_tells_apart() -> None:
    assert [best_value(name) for name in ("rag_zeval@truth", "umbrela", "ragchecker_hallucination")] == [1, 3, 0]
    known = {("1", "old", "a"): 1.0, ("1", "new", "a"): 1.0, ("2", "old", "a"): 0.5, ("2", "new", "b"): None}
    found = {one.what: one for one in of_metric("rag_zeval@truth", known)}
    assert (found["mean"].value, found["mean"].n) == (pytest.approx(2.5 / 3), 3)
    assert found["share at the best value"].value == pytest.approx(2 / 3)
    share, pairs = discriminative_power({"old": [1.0, 0.5], "new": [1.0, None]})
    assert (found["pairs of systems told apart"].value, found["pairs of systems told apart"].n) == (share, len(pairs))
    assert [one.value for one in of_metric("umbrela", {("1", "old", "a"): None})] == [None, None]
    apart = {(str(case), "old", "a"): float(case < 6) for case in range(8)}
    copied = {(case, system, "a"): score for (case, _, _), score in apart.items() for system in ("old", "new", "next")}
    intervals = [of_metric("m", scores)[1].interval for scores in (apart, copied)]
    assert intervals[1] == pytest.approx(intervals[0])  # equal answers of three systems are not three answers
    [_, few] = of_metric("umbrela", {("1", "old", "a"): 3.0})
    assert few.value == 1 and few.interval is not None  # all perfect, but only one


def write(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def files(tmp_path: Path, result_row: Any) -> None:
    """Two judges of one metric, with `ccrs_ac` and `ccrs_ir` of the first."""
    first, second = [], []
    for n in range(8):
        first.append(result_row(str(n), "is <b>", n / 10, parts={}))
        second.append(result_row(str(n), "is <b>", n / 10 + (0.2 if n % 2 else 0.0), parts={}))
        made_of = {"exact_match": n > 5, "judged": n / 8}
        value = 0.7 * (n > 5) + 0.3 * n / 8
        first.append(result_row(str(n), "ccrs_ac", value, parts={"answers": [made_of]}))
        first.append(result_row(str(n), "ccrs_ir", 1 - n / 8, parts={}))
    write(tmp_path / "a", [*first, result_row("9", "ccrs_ac", None, parts={"answers": [{}]})])
    write(tmp_path / "b", second)


def test_the_command_compares_metrics_judges_and_weights(files: None, run: Any, tmp_path: Path) -> None:
    done = run("metrics", "a", "b", "--html=m.html", "--csv=m.csv")
    assert done.returncode == 0, done.stderr
    rows = {(row["what"], row["metric"], row["other"]): row for _, row in sheet_rows(tmp_path / "m.csv")}
    number = {key: float(row["value"]) for key, row in rows.items() if row["value"]}
    judges = "is <b> (a)", "is <b> (b)"
    assert number[("difference of means", *judges)] == pytest.approx(0.1) and number[("same score", *judges)] == 0.5
    assert number["tau-b", "ccrs_ac", "ccrs_ir"] == pytest.approx(-1)
    assert {key[2] for key in number if key[0] == "tau-b" and key[1] == judges[0]} == {judges[1], "ccrs_ac", "ccrs_ir"}
    for weight in (0, 0.25, 0.5, 0.7, 1):
        mean = sum(weight * (n > 5) + (1 - weight) * n / 8 for n in range(8)) / 8
        assert number["mean", f"ccrs_ac λ={weight:g}", ""] == pytest.approx(mean)
    assert number["mean", "ccrs_ac", ""] == pytest.approx(number["mean", "ccrs_ac λ=0.7", ""])
    assert rows["mean", "ccrs_ac", ""]["n"] == "8"  # the answer without a score is none of them
    assert re.search(r"is <b> \(a\) +is <b> \(b\) +8 +0\.\d+ \[.*\] +0\.500 \[.*\] +\+0\.100 \[", done.stdout)
    assert re.search(r"3 ccrs_ac +1\.00 +0\.79 +-1\.00", done.stdout), done.stdout
    page = (tmp_path / "m.html").read_text()
    assert "is &lt;b&gt; (a)" in page and "<b>" not in page and page.count("<table>") == 5

    other = run("metrics", "a", "--exact-match-weight=0.5", "--csv=n.csv")
    assert other.returncode == 0
    [mean] = [row for _, row in sheet_rows(tmp_path / "n.csv") if (row["what"], row["metric"]) == ("mean", "ccrs_ac")]
    assert float(mean["value"]) == pytest.approx(number["mean", "ccrs_ac λ=0.5", ""])


def test_scores_that_are_made_of_other_parts_have_no_weights(run: Any, tmp_path: Path, result_row: Any) -> None:
    for name, judged in (("a", 0.7), ("b", 0.0)):
        parts = {"answers": [{"exact_match": name == "b", "judged": judged}]}
        write(tmp_path / name, [result_row(str(n), "ccrs_ac", 0.7, parts=parts) for n in range(3)])
    done = run("metrics", "a", "b")
    assert done.returncode == 0 and "The weight λ" not in done.stdout


def test_answers_of_several_systems_are_one_metric(run: Any, tmp_path: Path, result_row: Any) -> None:
    for system in ("old", "new"):
        write(tmp_path / system, [result_row("1", "rag_zeval", 1.0, systems=[system])])
    columns = read_columns([tmp_path / "old", tmp_path / "new"])
    assert list(columns.scores) == ["rag_zeval"] and len(columns.scores["rag_zeval"]) == 2 and not columns.judges
    for judge, names in {"one": ["rag_zeval"], "another": [f"rag_zeval ({tmp_path / name})" for name in "ab"]}.items():
        write(tmp_path / "a", [result_row("1", "rag_zeval", 1.0, identity="one")])
        write(tmp_path / "b", [result_row("1", "rag_zeval", 1.0, identity=judge)])
        assert list(read_columns([tmp_path / "a", tmp_path / "b"]).scores) == names  # what is the same counts once


def test_versions_of_a_system_are_several_systems_and_no_judges(run: Any, tmp_path: Path, result_row: Any) -> None:
    """As where `answers.jsonl` of each release was evaluated: answers stay, the texts to judge by do not."""
    for name, version, score in (("old", 1, 1.0), ("new", 2, 0.0), ("again", 2, 0.5)):
        told = {"reference": f"Version {version}.", "identity": "second" if name == "again" else "first"}
        rows = [result_row(str(n), "faithful", score, **told) for n in range(9)]
        write(tmp_path / name, [*rows, *(result_row(str(n), "correct", 1.0) for n in range(9))])
    done = run("metrics", "old", "new")
    assert re.search(r"faithful +18 +0\.500 .* 1 of 1 ", done.stdout) and "judge A" not in done.stdout
    assert re.search(r"correct +18 +1\.000 .* 0 of 1 ", done.stdout)
    both = run("metrics", "old", "new", "again").stdout  # another judge of the new version
    assert re.search(r"faithful \(new\) +faithful \(again\) +9 .* \+0\.500", both)


def test_questions_with_the_same_id_are_no_pair(tmp_path: Path, result_row: Any) -> None:
    for name in ("old", "new"):
        rows = [
            result_row(str(n), "m", float(name == "old"), systems=[name], question=f"{name} {n}?") for n in range(9)
        ]
        write(tmp_path / name, rows)
    [scores] = read_columns([tmp_path / "old", tmp_path / "new"]).scores.values()
    assert {one.what: one.value for one in of_metric("m", scores)}[metric_validity.APART] == 0


def test_what_cannot_be_meant_is_one_line(files: None, run: Any, tmp_path: Path, result_row: Any) -> None:
    for name, made_of in {"old": [{"judged": 1}], "older": None}.items():
        write(tmp_path / name, [result_row("1", "ccrs_ac", 0.3, parts={"answers": made_of})])
    for words, message in [
        (["a", "--exact-match-weight=2"], "--exact-match-weight is 2, but must be from 0 to 1"),
        (["old"], "old: row '1|ccrs_ac': field 'exact_match' is missing"),
        (["older"], "older: row '1|ccrs_ac': field 'exact_match' is missing"),
        (["a", "--html=a"], "--html a is the same file as INPUT"),
    ]:
        refused = run("metrics", *words)
        assert refused.returncode == 2 and message in refused.stderr and refused.stderr.count("\n") == 1
