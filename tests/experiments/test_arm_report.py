"""Tables, checks and figures, from result files whose truth is known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_benchmarks.benchmark import Metric
from eval_benchmarks.output.figure import BLUE, GREEN, RED
from experiments import __main__ as program
from experiments.arm_commands import run_name
from experiments.arm_estimates import UNREAD
from experiments.arm_report import grounding_figure, reward_figure
from experiments.arm_results import metric_values, write_result
from rag_zeval.statistics.bootstrap import Ratio, paired_interval

N = 600
BENCHMARKS = ("nano_eval", "nano_cad")
STEPS = 12


class Results:
    """Writes result files; `gain` is what is added to the share of prompts a model gets right."""

    def __init__(self, folder: Path, experiment: str):
        self.folder, self.experiment = folder, experiment
        self.words = [f"experiment={experiment}", f"results_dir={folder}", "only_tables=true", "draws=400"]
        self.rng = np.random.default_rng(0)
        self.luck = self.rng.random(N)  # of each prompt, for all models: what pairing is for

    def values(self, share: float) -> np.ndarray[Any, Any]:
        return (0.9 * self.luck + 0.1 * self.rng.random(N) < share).astype(float)

    def write(self, arm: str, seed: int | None, gain: float = 0.0, verdicts: float = 0.03, **changes: Any) -> None:
        shares = {"ranking_accuracy": 0.4 + gain, "pairwise_middle": 0.6 + gain, "verdict_accuracy": 0.8 + verdicts}
        values = {name: self.values(share).tolist() for name, share in shares.items()}
        if changes.pop("ranks_only", False):
            del values["verdict_accuracy"]
        step = np.arange(STEPS)
        curves = {
            "reward": step / STEPS + gain,
            "evidence": 0.8 + step / 100,
            "claims": 4.0 + 0 * step,
            "candidates": np.where(step < STEPS // 2, 3.0, 4.0),
        }
        row = {
            "arm": arm,
            "seed": seed,
            "rows": {"train": 240} if seed else {},
            "steps": {"train": STEPS} if seed else {},
            "minutes": {"train": 12.5, "bench": 40.0} if seed else {"bench": 1.0},
            "jobs": 1,
            "model": f"{arm}{seed}" * 8,
            "base": "b" * 64,
            "answers": "a" * 64 if seed else None,
            "benchmarks": {name: {"data_hash": "d", "prompt_hash": "p", "metrics": values} for name in BENCHMARKS},
            "curves": {name: curve.tolist() for name, curve in curves.items()} if seed else {},
        }
        write_result(self.folder / self.experiment / f"{run_name(arm, seed)}.json", {**row, **changes})

    def write_seeds(self, arm: str, **changes: Any) -> None:
        for seed in (1, 2, 3):
            self.write(arm, seed, **changes)

    def report(self) -> tuple[str, dict[str, Any]]:
        """tables.md and summary.json."""
        assert program.main(self.words) == 0
        folder = self.folder / self.experiment
        return (folder / "tables.md").read_text(), json.loads((folder / "summary.json").read_text())


@pytest.fixture
def proof(tmp_path: Path) -> Results:
    results = Results(tmp_path / "proof", "proof")
    results.write("base", None, verdicts=0.0)
    results.write_seeds("judge", gain=0.1)
    return results


@pytest.fixture
def ablations(tmp_path: Path) -> Results:
    results = Results(tmp_path / "ablations", "ablations")
    results.write("base", None, verdicts=0.0)
    for arm, gain in {"curriculum": 0.15, "best-only": 0.05, "static-3": 0.25, "static-4": 0.15}.items():
        results.write_seeds(arm, gain=gain)
    results.write_seeds("sft-ranker", curves={}, ranks_only=True)
    results.write("no-evidence", 1, gain=0.1)
    return results


def row_of(summary: Any, arm: str, metric: str, benchmark: str = "nano_eval") -> Any:
    key = {"benchmark": benchmark, "metric": metric, "arm": arm}
    [row] = [row for row in summary["rows"] if key.items() <= row.items()]
    return row


def test_a_judge_that_is_better_passes_every_check(proof: Results, capsys: Any) -> None:
    tables, summary = proof.report()
    assert [check["passed"] for check in summary["checks"]] == [True] * len(summary["checks"])
    out = capsys.readouterr().out
    for benchmark in BENCHMARKS:
        assert f"pass: {benchmark}: pairwise_middle, trained minus base, above 0: +0.1" in out
        assert f"pass: {benchmark}: verdict_accuracy, trained minus base, above -0.01: " in out
        assert f"pass: {benchmark}: at least 500 prompts for each K: 600" in out
    assert "pass: at most 60 minutes of training for an arm and seed: 12.5 (judge-seed1)" in out
    assert "Missing" not in tables and "direction" not in tables


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"gain": -0.02}, "each seed"),
        ({"verdicts": -0.1}, "verdict_accuracy"),
        ({"minutes": {"sft": 30.0, "train": 31.0, "bench": 1.0}}, "60 minutes"),
        ({"rows": {"train": 232}}, "one number of prompts"),
    ],
)
def test_one_bad_seed_fails_the_check_it_should(proof: Results, change: dict[str, Any], failing: str) -> None:
    proof.write("judge", 2, **{"gain": 0.1, **change})
    _, summary = proof.report()
    failed = [failing in check["claim"] for check in summary["checks"] if check["passed"] is False]
    assert any(failed) and (failing == "each seed" or all(failed))


def test_what_is_not_run_yet_is_listed_and_its_checks_stay_open(tmp_path: Path) -> None:
    results = Results(tmp_path, "proof")
    tables, summary = results.report()
    assert "**Missing, not yet run:** base, judge-seed1, judge-seed2, judge-seed3." in tables
    assert {check["passed"] for check in summary["checks"]} == {None, True}  # the number of seeds is known
    assert "open: nano_eval: ranking_accuracy, trained minus base, above 0: -" in tables
    results.write("judge", 2)
    tables, summary = results.report()
    assert "**Missing, not yet run:** base, judge-seed1, judge-seed3." in tables
    assert row_of(summary, "judge", "ranking_accuracy")["minus_base"] is None


def test_directions_are_those_of_the_arms_and_missing_arms_are_named(ablations: Results) -> None:
    tables, summary = ablations.report()
    assert "**Missing, not yet run:** no-evidence-seed2, no-evidence-seed3." in tables
    directions = {"best-only": "holds", "static-3": "reversed", "static-4": "not seen", "curriculum": None}
    for arm, direction in directions.items():
        assert row_of(summary, arm, "ranking_accuracy")["direction"] == direction
    assert "- curriculum better than static-3: **reversed** for nano_eval ranking_accuracy" in tables
    assert not [row for row in summary["rows"] if (row["arm"], row["metric"]) == ("sft-ranker", "verdict_accuracy")]
    section = tables[tables.index("## Table 4") : tables.index("## Table 5")]
    shown = {line.split(" | ")[2] for line in section.splitlines() if line.startswith("| nano")}
    assert shown == {"base", "curriculum", "static-3", "static-4"}


def test_the_numbers_are_those_of_the_files(ablations: Results) -> None:
    _, summary = ablations.report()
    row, base = row_of(summary, "best-only", "pairwise_middle"), row_of(summary, "base", "pairwise_middle")
    assert list(row["by_seed"]) == ["1", "2", "3"]
    assert row["value"] == pytest.approx(np.mean(list(row["by_seed"].values())))
    assert row["minus_base"]["value"] == pytest.approx(row["value"] - base["value"])
    against = row_of(summary, "curriculum", "pairwise_middle")["value"] - row["value"]
    assert row["reference_minus"]["value"] == pytest.approx(against)
    assert row["reference_minus"]["ci_low"] < against < row["reference_minus"]["ci_high"]
    assert (row["n"], row["coverage"], base["by_seed"]) == (N, 1.0, {"None": base["value"]})


def test_replies_that_cannot_be_read_are_left_out_once_and_wrong_once(tmp_path: Path) -> None:
    """One seed, so that the interval can be compared with the plain paired one."""
    results = Results(tmp_path, "proof")
    results.words += ["seeds=[5]", "arms=[judge]"]
    base, trained = results.values(0.4), results.values(0.6)
    unread = results.rng.random(N) < 0.3
    for arm, seed, top, scored in (("base", None, base, np.ones(N, bool)), ("judge", 5, trained, ~unread)):
        values = metric_values(Metric("", Ratio(top, np.ones(N)), scored))
        metrics = dict.fromkeys(("ranking_accuracy", "pairwise_middle"), values)
        of = {name: {"data_hash": "d", "prompt_hash": "p", "metrics": metrics} for name in BENCHMARKS}
        results.write(arm, seed, benchmarks=of)
    _, summary = results.report()
    read, wrong = (row_of(summary, "judge", "ranking_accuracy" + more)["minus_base"] for more in ("", UNREAD))
    ones, everything = np.ones(N), np.ones(N, bool)
    plain = paired_interval(Ratio(base, ones), Ratio(trained, ones), ~unread, 400, 0)
    assert (read["ci_low"], read["ci_high"]) == pytest.approx(plain)
    assert (read["n"], wrong["n"]) == (int((~unread).sum()), N)
    strict = paired_interval(Ratio(base, ones), Ratio(np.where(unread, 0.0, trained), ones), everything, 400, 0)
    assert (wrong["ci_low"], wrong["ci_high"]) == pytest.approx(strict)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base": "c" * 64}, "judge-seed3.json: cannot be compared with base.json: it starts from another model"),
        ({"answers": "c" * 64}, "cannot be compared with judge-seed1.json: it was trained on other answers"),
        ({"benchmarks": {"nano_cad": {"data_hash": "e", "metrics": {}}}}, "base.json: nano_cad has other data"),
        ({"curves": {"reward": "high"}}, "judge-seed3.json: field 'curves': 'reward' must be list"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    proof: Results, change: dict[str, Any], said: str, refusal: Any
) -> None:
    proof.write("judge", 3, **change)
    assert said in refusal(program.main, proof.words)


def test_figures_have_the_colours_of_the_paper(place: Any) -> None:
    """Its captions: curriculum red, static 3 green, static 4 blue; grounding red, claims blue, entailment green."""
    arms = {arm: [{"reward": np.full(STEPS, value)}] for arm, value in (("curriculum", 3), ("3", 2), ("4", 1))}
    heights = [place(reward_figure(arms), colour)[1] for colour in (RED, GREEN, BLUE)]
    assert heights == sorted(heights)  # row 0 is the highest
    flat = {str(arm): [{"reward": np.full(STEPS, float(arm))}] for arm in range(7)}  # more arms than colours
    assert reward_figure(flat) != reward_figure({arm: flat[arm] for arm in list(flat)[:6]})
    run = {name: np.full(STEPS, 0.5) for name in ("evidence", "claims", "entailment")}
    columns = [place(grounding_figure([run]), colour)[0] for colour in (RED, BLUE, GREEN)]
    assert columns == sorted(columns)


def test_figures_are_drawn_of_the_arms_that_have_curves(ablations: Results) -> None:
    tables, _ = ablations.report()
    folder = ablations.folder / "ablations"
    for name in ("figure-3.png", "figure-4.png"):
        drawn = (folder / name).read_bytes()
        assert drawn.startswith(b"\x89PNG") and len(drawn) > 10_000
    assert "(figure-3.png)" in tables and "arms curriculum, static-3, static-4](figure-4.png)" in tables
    ablations.write_seeds("static-3", gain=0.3, curves={})
    tables, _ = ablations.report()
    assert "arms curriculum, static-4](figure-4.png)" in tables
    ablations.write_seeds("curriculum", gain=0.3, curves={})
    tables, _ = ablations.report()
    assert "figure-3.png" not in tables and "arms static-4](figure-4.png)" in tables
    assert not (folder / "figure-3.png").exists() and (folder / "figure-4.png").exists()
