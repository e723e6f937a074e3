"""`python -m experiments.timing.statistics_speed`: time the statistics of ten scorers, part by part.

The shape is that of the RAGChecker meta-evaluation: 280 instances, two annotators each, six metrics, 10,000 resamples.
The scores are random. Two scorers lack some scores, so that tests cannot share all resamples. Set OMP_NUM_THREADS=1 to
measure the time of one core.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.streams import exit_status, run_command

INSTANCES, SCORERS, DRAWS = 280, 10, 10_000


def main(argv: Sequence[str]) -> int:
    return run_command(statistics_speed, argv, "experiments.timing.statistics_speed", __doc__)


def statistics_speed() -> None:
    from eval_benchmarks.output.comparisons import comparison_rows
    from eval_benchmarks.output.summary import summary_rows
    from eval_benchmarks.trials import group_trials

    scorers = group_trials(random_trials())
    seconds = {}
    for name, part in (("intervals", summary_rows), ("tests", comparison_rows)):
        started = time.process_time()
        part(scorers, DRAWS, 0)
        seconds[name] = time.process_time() - started
    parts = ", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items())
    shape = f"{SCORERS} scorers, {INSTANCES} instances, {DRAWS} draws"
    print(f"{shape}: {parts}, together {sum(seconds.values()):.2f} s (CPU)")


def random_trials() -> list:
    """A Trial for each of SCORERS scorers, the last of which is RAG-Zeval."""
    import numpy as np

    from eval_benchmarks.datasets.ragchecker_meta import FOLDER, LABELLED, RagcheckerMeta
    from eval_benchmarks.trials import Trial
    from rag_zeval.scorers.score import Score, Scored

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FOLDER / LABELLED
        path.parent.mkdir()
        path.write_text(
            json.dumps([_labelled(i // 2, int(rng.integers(-2, 3))) for i in range(2 * INSTANCES)]), "utf-8"
        )
        benchmark = RagcheckerMeta(Path(folder))
    trials = []
    for number in range(SCORERS):
        lacking = 0.05 * (number % 5 == 1)
        scored = {}
        for example in benchmark.examples:
            scores = [None if rng.random() < lacking else round(rng.random(), 2) for _ in range(2)]
            scored[example.id] = Scored(example.id, tuple(map(Score, scores)))
        name = "rag_zeval" if number == SCORERS - 1 else f"scorer-{number}"
        trials.append(Trial(benchmark, name, None, name, name, None, scored))
    return trials


def _labelled(number: int, label: int) -> dict:
    texts = {"query": "q", "gt_answer": "a", "model1": {"response": "b"}, "model2": {"response": "c"}}
    return {"instance_id": number, **texts, "correctness_label": label}


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
