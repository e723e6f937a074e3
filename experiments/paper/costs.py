"""What a plan costs: calls and tokens of its runs, as the judge by the letter needs them, and hours of trainings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from eval_benchmarks.bench_settings import RunSettings, read_settings
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.output.tables import NONE, Table
from eval_benchmarks.prices import MILLION, price_of, read_prices
from experiments.paper.runs import BenchRun, PaperSettings
from experiments.timing.call_costs import measure
from rag_zeval.scorers.registry import JUDGE, MEASURES
from rag_zeval.stages.config import load_config

PAPER_STEPS, PAPER_HOURS = 343, 20  # of the paper's training, on 8 H20 (A.3)
HEADS = ("run", "model", "benchmark", "scorer", "examples", "trials", "calls", "tokens in", "tokens out", "dollars")

TRAINING_HEADS = ("run", "model", "there", "steps", "hours")


def plan_table(runs: Sequence[BenchRun], settings: PaperSettings) -> Table:
    """A line for each scorer of each run. Tokens are the judge's by the letter on examples of the nano world: an order
    of magnitude, in words and marks."""
    prices = read_prices(settings.prices) if settings.prices else {}
    cost = cache(measure)
    lines = []
    for run in runs:
        words = [f"profile={settings.profile}", *run.words]
        [benchmark], _ = load_benchmarks(read_settings(load_config("bench", words), RunSettings))
        judgements, price = len(benchmark.examples) * run.trials, price_of(run.model, prices)
        for scorer in run.scorers:
            place = (run.judge, run.model or NONE, run.benchmark, scorer, str(len(benchmark.examples)), str(run.trials))
            asks = scorer == JUDGE or (scorer in MEASURES and bool(MEASURES[scorer].prompts))
            calls, _, prompt, reply = cost(scorer) if asks else (0, 0, 0, 0)
            dollars = judgements * (prompt * price.prompt + reply * price.completion) / MILLION if price else None
            counts = (f"{judgements * number:,.0f}" for number in (calls, prompt, reply))
            lines.append((*place, *counts, NONE if dollars is None else f"{dollars:.2f}"))
    return Table("what would be run", HEADS, lines)


def trainings_table(settings: PaperSettings) -> Table:
    """A line for each model that is trained here: its steps, and the paper's hours for as many on 8 GPUs."""
    lines = []
    for name, arm in settings.arms.items():
        there = "there" if (Path(arm.model) / "config.json").is_file() else "missing"
        steps, hours = NONE, NONE
        if arm.stage == "train":
            config = load_config("train", [f"profile={settings.profile}", *arm.words])
            rows = [stage.rows for stage in config.stages]
            count = sum(rows) * config.verl.trainer.total_epochs // config.verl.data.train_batch_size
            steps = str(count)
            hours = f"{PAPER_HOURS * count / PAPER_STEPS:.0f}" if config.platform == "gpu" else NONE
        lines.append((name, arm.model, there, steps, hours))
    return Table("models that are trained here", TRAINING_HEADS, lines)
