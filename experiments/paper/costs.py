"""What the runs of a plan ask: calls and tokens, as the judge by the letter needs them; dollars by a price list."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from eval_benchmarks.bench_settings import RunSettings, read_settings
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.output.tables import NONE, Table
from eval_benchmarks.prices import MILLION, price_of, read_prices
from experiments.paper.runs import BenchRun, PaperSettings
from experiments.timing.call_costs import measure
from rag_zeval.scorers.registry import JUDGE, MEASURES
from rag_zeval.stages.config import load_config

HEADS = ("run", "model", "benchmark", "scorer", "examples", "trials", "calls", "tokens in", "tokens out", "dollars")


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
