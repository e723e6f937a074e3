"""`python -m experiments.label_savings RUN...`: how many human labels does a judge save?

RUN is a finished benchmark run with ragchecker_meta, whose 280 pairs of answers all have human labels, or with a set of
labelled texts, such as faithbench. For each scorer it draws a few pairs or texts as `rag-zeval sample` does. From their
labels and all scores it estimates the mean of all labels. It prints how wide the 95% intervals are with and without the
scorer, and how often those with it contain the mean of all labels. docs/audit-accuracy.md has this table.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from eval_benchmarks.bench_manifest import read_bench
from eval_benchmarks.datasets.labelled.benchmark import Labelled
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.trials import Trial, group_trials
from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.corrected_mean import LabelledSample, corrected_mean, labelled_sample, labels_alone
from rag_zeval.audit.sheet import Item, Label, draw
from rag_zeval.cases.case import NO_SLICE
from rag_zeval.errors import InputError
from rag_zeval.statistics.weighted_correlations import Floats
from rag_zeval.streams import command_line

WIDEST = 2  # labels and deltas lie between -2 and 2


def items_and_labels(trial: Trial) -> tuple[list[Item], Floats] | None:
    """Return what a scorer scored, and people's labels of it, both from 0 to 1.

    A label is the mean where several people gave one. Texts about one document belong to the same case. Each pair is a
    case of its own. None for a benchmark without such labels.
    """
    benchmark = trial.benchmark
    cases: NDArray[np.intp]
    if isinstance(benchmark, RagcheckerMeta):
        deltas, people = benchmark.deltas(trial.scored), benchmark.labels.mean(1)
        scores, labels = ((values + WIDEST) / (2 * WIDEST) for values in (deltas, people))
        cases = np.arange(len(scores))
    elif isinstance(benchmark, Labelled):
        scores, labels, cases = benchmark.scores(trial.scored), benchmark.test.supported(0), benchmark.test.documents
    else:
        return None
    there = ~np.isnan(scores) & ~np.isnan(labels)
    rows = zip(cases[there], np.clip(scores[there], 0, 1), strict=True)
    items = [
        Item(f"r{at}", str(case), NO_SLICE, "", (), "", None, float(score), "") for at, (case, score) in enumerate(rows)
    ]
    return items, labels[there]


def intervals(
    items: Sequence[Item], labels: Floats, n: int, draws: int, estimate: Callable[[LabelledSample], Statistic]
) -> Floats:
    """Return the interval bounds of estimates from n drawn labels each, (draws, 2)."""
    bounds = []
    for seed in range(draws):
        known = {item.id: Label(float(labels[int(item.id[1:])]), "", "", 1 / p) for item, p in draw(items, n, seed)}
        sample = labelled_sample(items, known)
        assert sample is not None, "there are labels"
        bounds.append(estimate(sample).interval or (0.0, 1.0))
    return np.array(bounds)


def label_savings(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished benchmark runs.")],
    n: Annotated[
        list[int], typer.Option("--n", min=10, help="How many labels an estimate has; repeat it for several numbers.")
    ] = [25, 50, 100],  # noqa: B006 (typer reads it)
    draws: Annotated[int, typer.Option(min=1, help="How many times labels are drawn.")] = 1_000,
) -> None:
    from scipy.stats import kendalltau

    found = [one for run in runs for one in group_trials(read_bench(run)[1])]
    labelled = [(one, part) for one in found if (part := items_and_labels(one.trials[0]))]
    if not labelled:
        raise InputError(f"{runs[0]}: has no scores of ragchecker_meta or of labelled texts")
    print(f"with {' / '.join(map(str, n))} labels, {draws} draws:\n")
    heads = ("benchmark", "scorer", "n", "tau-b", "width, labels alone", "width, corrected", "labels saved", "covers")
    print(f"| {' | '.join(heads)} |\n|---|---|---:|---:|---|---|---|---|")
    for one, (items, labels) in labelled:
        widths: list[tuple[float, ...]] = []
        covers = []
        for count in n:
            alone, corrected = (intervals(items, labels, count, draws, mean) for mean in (labels_alone, corrected_mean))
            widths.append(tuple(float((bounds[:, 1] - bounds[:, 0]).mean()) for bounds in (alone, corrected)))
            covers.append(float(((corrected[:, 0] <= labels.mean()) & (labels.mean() <= corrected[:, 1])).mean()))
        tau = float(kendalltau([item.score for item in items], labels).statistic)
        # the width of an interval is proportional to 1 / sqrt(labels)
        saved = [1 - (corrected / alone) ** 2 for alone, corrected in widths]
        columns = [*zip(*widths, strict=True), covers]
        alone_, corrected_, covered = (" / ".join(f"{value:.3f}" for value in column) for column in columns)
        cells = [one.benchmark.name, one.name, str(len(items)), f"{tau:.3f}", alone_, corrected_]
        print(f"| {' | '.join([*cells, ' / '.join(f'{part:.0%}' for part in saved), covered])} |", flush=True)


main = command_line(label_savings, "experiments.label_savings", __doc__)

if __name__ == "__main__":
    sys.exit(main())
