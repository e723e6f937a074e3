import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval_benchmarks.__main__ import main as bench
from eval_benchmarks.bench_manifest import read_bench
from eval_benchmarks.compare import _speed, main
from eval_benchmarks.output.comparisons import agreement_rows, pair_rows
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.trials import BenchResults, ScorerTrials, Trial, group_trials
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.results import SPENT
from rag_zeval.scorers.score import Score, Scored


@pytest.fixture
def run(judge_server: Any, nano: Any, capsys: Any) -> Path:
    """A finished run of one text scorer and two judges on nano_eval."""
    assert nano("scorers=[bleu,rag_zeval]", judge_server.models("yes", "perfect")) == 0
    capsys.readouterr()
    return nano.out


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def copy(kept: Path, out: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a finished run, which was made once: to be spoilt."""
    if not kept.exists():
        shutil.copytree(request.getfixturevalue("run"), kept)
    return Path(shutil.copytree(kept, out / "copy"))


def test_a_run_is_read_back_as_it_was_written(run: Path) -> None:
    settings, trials = read_bench(run)
    results = BenchResults(group_trials(trials), settings.bootstrap.draws)
    assert summary_rows(results) == json.loads((run / "summary.json").read_text())
    assert [trial.scorer for trial in trials] == ["bleu", "rag_zeval", "rag_zeval"]


def test_any_two_scorers_are_compared_without_asking_anybody(run: Path, judge_server: Any, capsys: Any) -> None:
    asked = len(judge_server.server.requests)
    yes = f"rag_zeval by {judge_server.spec('yes')}"
    assert main([str(run), "bleu", yes]) == 0
    shown = capsys.readouterr().out
    results = BenchResults(group_trials(read_bench(run)[1]), draws=100)
    bleu, judge, _ = results.scorers
    for row in pair_rows(results, bleu, judge):
        (line,) = [line.split() for line in shown.splitlines() if re.match(rf" {row['metric']} ", line)]
        assert line[1] == f"{row['difference']:.3f}" and f"{row['p']:.4f}" in line
    assert "verdict_accuracy" not in shown  # bleu has no verdicts
    (row,) = [row for row in agreement_rows(results, bleu, judge) if row["metric"] == "same_ranking"]
    assert re.search(rf"same_ranking +{row['value']:.3f} .* {row['n']}\s", shown)
    assert re.search(rf"nano_eval, {re.escape(yes)}: [\d.]+ examples a minute", shown) and "bleu: " not in shown
    assert main([str(run), yes, "bleu"]) == 0
    assert len(judge_server.server.requests) == asked


def test_the_costs_of_retried_rows_are_no_example_that_a_judge_scored() -> None:
    rows = {id_: Scored(id_, (Score(1.0),), calls=1, seconds=2.0) for id_ in "ab"} | {SPENT: Scored(SPENT, (), calls=1)}
    judged: Any = SimpleNamespace(trials=[SimpleNamespace(scored=rows)], benchmark=SimpleNamespace(name="b"), name="j")
    assert str(_speed(judged)).startswith("b, j: 30.0 examples a minute")


def test_the_mean_of_training_seeds_is_compared(run: Path, judge_server: Any, capsys: Any) -> None:
    yes, perfect = (f"rag_zeval by {judge_server.spec(name)}" for name in ("yes", "perfect"))
    assert main([str(run), yes, "bleu", "--seed", perfect]) == 0
    shown = capsys.readouterr().out
    assert main([str(run), yes, "bleu", "--seed", perfect, "--seed", perfect, "--seed", yes]) == 0
    assert capsys.readouterr().out == shown  # each seed counts once
    assert "and other seeds: 1, minus bleu" in " ".join(shown.split()) and "same_ranking" not in shown
    assert "few of them make intervals too narrow and p too small" in " ".join(shown.split())
    values = {}
    for seed in (yes, perfect):
        assert main([str(run), seed, "bleu"]) == 0
        values[seed] = float(re.findall(r"pairwise_middle +(-?[\d.]+)", capsys.readouterr().out)[0])
    together = float(re.findall(r"pairwise_middle +(-?[\d.]+)", shown)[0])
    assert together == pytest.approx(sum(values.values()) / 2, abs=0.001)
    assert len(set(values.values())) == 2


def scored_by(model: str, *rows: Sequence[float | None]) -> ScorerTrials:
    """A judge's scores of these examples' answers."""
    scored = {str(at): Scored(str(at), tuple(map(Score, row)), calls=1, seconds=6.0) for at, row in enumerate(rows)}
    examples = [Example(id_, "?", "passage", ("answer",) * len(row.scores)) for id_, row in scored.items()]
    benchmark: Any = SimpleNamespace(name="b", examples=examples)
    return ScorerTrials(
        benchmark, "rag_zeval", model, (Trial(benchmark, "rag_zeval", model, "", "", None, scored),), {}
    )


def test_how_often_two_judges_agree_counts_answers_and_rankings() -> None:
    first = scored_by("a", (1.0, 0.5), (0.5, 0.5), (1.0, None), (None, None), (0.2, 0.1, 0.0), (None, 0.5))
    second = scored_by("b", (0.995, 0.4), (0.5, 0.49), (1.0, None), (None, None), (0.2, 0.0, 0.1), (0.5, 0.5))
    scores, rankings = agreement_rows(BenchResults([first, second], draws=200), first, second)
    assert scores["metric"] == "same_score" and (scores["value"], scores["n"]) == (pytest.approx(6 / 10), 10)
    assert rankings["metric"] == "same_ranking" and (rankings["value"], rankings["n"]) == (pytest.approx(1 / 4), 4)
    assert all(0 <= row["ci_low"] <= row["value"] <= row["ci_high"] <= 1 for row in (scores, rankings))
    nothing = scored_by("c", (None, None))
    assert agreement_rows(BenchResults([nothing], draws=10), nothing, nothing) == []


def test_what_cannot_be_compared_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, words, message in (
        (run, ["bleu", "blue"], r"'blue' is not a scorer of this run; choose from: bleu, rag_zeval by "),
        (
            run,
            ["rag_zeval", "bleu"],
            r"'rag_zeval' has several models; choose from: rag_zeval by .*yes.*, rag_zeval by ",
        ),
        (tmp_path / "none", ["bleu", "bleu"], r"none.manifest\.json: is missing"),
    ):
        assert main([str(folder), *words]) == 2
        assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["data"]["nano_eval"].update(sha256="0"), r"field 'data': nano_eval in .* is not what was scored"),
        (lambda m: m.pop("rows"), r"manifest\.json: not a manifest of a benchmark run: field 'rows' is missing"),
        (lambda m: m["rows"][1].pop("trial"), r"field 'rows': item 2: field 'trial' is missing"),
        (lambda m: m["rows"][1].update(benchmark="x_both_orders"), r"no rows of x by the same judge come before"),
        (lambda m: m["rows"][0].update(file="rows/none.jsonl"), r"none\.jsonl: cannot be read"),
        (lambda m: m["rows"][0].update(file="../manifest.json"), r"rows.manifest\.json: cannot be read"),
        (  # nor does a manifest read an environment variable
            lambda m: m["config"].update(data_dir="${oc.env:CANARY}", benchmarks=["wikieval"]),
            r"nano_eval is not in \$\{oc\.env:CANARY\}; put it there again",
        ),
        (lambda m: m["config"].update(data_dir=7), r"field 'config': data_dir: must be a folder, found 7"),
        (lambda m: m["config"]["bootstrap"].update(draws="${oc.env:CANARY}"), r"draws: .* found \$\{oc\.env:CANARY\}$"),
        (
            lambda m: m["config"]["bootstrap"].update(draws=10**12),
            r"draws: must be a whole number from 1 to 1,000,000, ",
        ),
        (lambda m: m["config"]["nano_eval"].update(n=10**9), r"n: must be a whole number from 1 to 100,000, fo"),
        (
            lambda m: m["config"]["bootstrap"].update(draws=float("nan")),
            r"manifest\.json: not valid JSON: NaN is not a nu",
        ),
    ],
)
def test_a_run_that_is_not_whole_is_refused(copy: Path, change: Any, message: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("CANARY", "5")
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=message):
        read_bench(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [[]]}, "field 'scores': item 1 must be dict, found list"),
        ({"scores": [{"value": 1, "status": "ok"}]}, "field 'scores': has 1, must have 4"),
        ({"scores": [{"value": "1"}] * 4}, "item 1: field 'value' must be int or float or NoneType, found str"),
        ({"calls": None}, "field 'calls' must be int, found NoneType"),
        ({"seconds": [7]}, "field 'seconds' must be int or float, found list"),
    ],
)
def test_rows_of_another_kind_are_refused(copy: Path, change: dict[str, Any], message: str) -> None:
    file = next((copy / "rows").glob("*bleu*"))
    first, *rows = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(first) | change), *rows]) + "\n")
    with pytest.raises(InputError, match=rf"bleu.*jsonl: .*{message}"):
        read_bench(copy)


def test_a_run_is_read_with_the_data_folder_of_now(write_wikieval: Any, out: Path, monkeypatch: Any) -> None:
    """RAG_ZEVAL_DATA may name another folder then, but with the same data; it stands in no file of the run."""
    first, second = (write_wikieval({}, {}).rename(out.parent / name) for name in ("canary-1", "canary-2"))
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(first))
    words = ["benchmarks=[wikieval,ragchecker_meta]", "scorers=[bleu,rouge_l]", "models=[]", "bootstrap.draws=50"]
    assert bench([*words, f"out_dir={out / 'wiki'}"]) == 0
    files = [path for path in (out / "wiki").rglob("*") if path.is_file()]
    assert len(files) >= 9 and not [path for path in files if b"canary" in path.read_bytes()]
    written = json.loads((out / "wiki" / "manifest.json").read_text())["config"]
    assert written["data_dir"] == "${oc.env:RAG_ZEVAL_DATA,data}" and written["out_dir"] == str(out / "wiki")
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(second))
    assert main([str(out / "wiki"), "bleu", "rouge_l"]) == 0
    write_wikieval({"answer": "another"}, {}).rename(out.parent / "canary-3")
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(out.parent / "canary-3"))
    with pytest.raises(InputError, match=r"field 'data': wikieval in .*canary-3 is not what was scored"):
        read_bench(out / "wiki")
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(out.parent / "empty"))
    with pytest.raises(InputError, match=r"field 'data': wikieval is not in .*empty; set RAG_ZEVAL_DATA to the folder"):
        read_bench(out / "wiki")
