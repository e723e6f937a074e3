"""`python -m experiments.label_savings RUN`: how many of people's labels does a judge save?

RUN is a finished benchmark run with ragchecker_meta, whose 280 pairs of answers all have people's labels. For each
scorer it draws a few pairs as `rag-zeval sample` does, and estimates the mean label of all pairs from these few labels
and all scores. It prints how wide the 95% intervals are with the scorer and without, and how often they hold the mean
of all labels. docs/judge-audit.md has this table.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from eval_benchmarks.bench_manifest import read_run
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.trials import Trial, group_trials
from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import LabelledSample, corrected_mean, labelled_sample, labels_alone
from rag_zeval.audit.sheet import Item, Label, draw
from rag_zeval.cases.case import NO_SLICE
from rag_zeval.errors import InputError
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.streams import command_line

WIDEST = 2  # of labels and deltas, from -2 to 2


def items_and_labels(trial: Trial) -> tuple[list[Item], Floats]:
    """The pairs that a scorer scored, and the mean of people's labels of each; both from 0 to 1."""
    benchmark = trial.benchmark
    assert isinstance(benchmark, RagcheckerMeta)
    deltas, labels = benchmark.deltas(trial.scored), benchmark.labels.mean(1)
    there = ~np.isnan(deltas)
    scores, means = ((values[there] + WIDEST) / (2 * WIDEST) for values in (deltas, labels))
    items = [Item(f"r{at}", str(at), NO_SLICE, "", (), "", None, float(score), "") for at, score in enumerate(scores)]
    return items, means


def intervals(
    items: Sequence[Item], labels: Floats, n: int, draws: int, estimate: Callable[[LabelledSample], Statistic]
) -> Floats:
    """The bounds (draws, 2) from n labels each."""
    bounds = []
    for seed in range(draws):
        known = {item.id: Label(float(labels[int(item.case)]), "", "") for item, _ in draw(items, n, seed)}
        sample = labelled_sample(items, known)
        assert sample is not None, "there are labels"
        bounds.append(estimate(sample).interval or (0.0, 1.0))
    return np.array(bounds)


def label_savings(
    run: Annotated[Path, typer.Argument(help="The folder of a finished benchmark run with ragchecker_meta.")],
    n: Annotated[int, typer.Option("--n", min=10, help="How many labels each estimate has.")] = 50,
    draws: Annotated[int, typer.Option(min=1, help="How many times labels are drawn.")] = 1_000,
) -> None:
    from scipy.stats import kendalltau

    _, trials = read_run(run)
    found = [one for one in group_trials(trials) if isinstance(one.benchmark, RagcheckerMeta)]
    if not found:
        raise InputError(f"{run}: has no scores of ragchecker_meta")
    print("| scorer | pairs | Kendall's tau-b | width, labels alone | width, corrected | labels saved | covers |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for one in found:
        items, labels = items_and_labels(one.trials[0])
        alone, corrected = (intervals(items, labels, n, draws, mean) for mean in (labels_alone, corrected_mean))
        widths = [float((bounds[:, 1] - bounds[:, 0]).mean()) for bounds in (alone, corrected)]
        truth = labels.mean()
        covers = float(((corrected[:, 0] <= truth) & (truth <= corrected[:, 1])).mean())
        tau = float(kendalltau([item.score for item in items], labels).statistic)
        saved = 1 - (widths[1] / widths[0]) ** 2  # an interval is as wide as 1 / sqrt(labels)
        cells = [one.name, str(len(items)), *(f"{value:.3f}" for value in (tau, *widths)), f"{saved:.0%}"]
        print(f"| {' | '.join(cells)} | {covers:.3f} |", flush=True)


main = command_line(label_savings, "experiments.label_savings", __doc__)

if __name__ == "__main__":
    sys.exit(main())
