"""`python -m eval_benchmarks.compare RUN FIRST SECOND`: a paired test of any two scorers of a finished run.

FIRST and SECOND are scorers as the tables name them: `bleu`, or with its model `"rag_zeval by checkpoints/nano-judge"`
(the scorer alone is enough where it has one model). Nothing is scored again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.errors import InputError, exit_status

HEADS = ("metric", "difference", "95% interval", "p", "n", "coverage")


def main(argv: Sequence[str]) -> int:
    """Print a table for each benchmark with scores of both. Raises InputError for a name that is not one scorer's."""
    parser = argparse.ArgumentParser(prog="python -m eval_benchmarks.compare", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a benchmark run")
    parser.add_argument("first")
    parser.add_argument("second")
    words = parser.parse_args(argv)
    from eval_benchmarks.output.comparisons import pair_rows
    from eval_benchmarks.output.tables import TEST_COLUMNS, make_table, open_console, show
    from eval_benchmarks.run_folder import read_run
    from eval_benchmarks.trials import by_benchmark, group_trials

    settings, trials = read_run(words.run)
    scorers = group_trials(trials)
    names = {scorer.name: scorer.scorer for scorer in scorers}
    first, second = (_find(wanted, names) for wanted in (words.first, words.second))
    columns = {head: TEST_COLUMNS[head] for head in HEADS}
    tables = []
    for benchmark, its_scorers in by_benchmark(scorers).items():
        by_name = {scorer.name: scorer for scorer in its_scorers}
        if first in by_name and second in by_name:
            rows = pair_rows(by_name[first], by_name[second], settings.bootstrap.draws, settings.bootstrap.seed)
            tables.append(make_table(f"{benchmark}: {first}, minus {second}", columns, rows))
    if not tables:
        raise InputError(f"{words.run}: no benchmark has scores of both {first} and {second}")
    show(open_console(), tables, ["The p-values are not corrected for testing several metrics."])
    return 0


def _find(wanted: str, names: dict[str, str]) -> str:
    """The full name of a scorer, given by it or by the scorer alone."""
    fitting = [name for name, scorer in names.items() if wanted in (name, scorer)]
    if wanted in fitting:
        return wanted
    if len(fitting) != 1:
        problem = "has several models" if fitting else "is not a scorer of this run"
        raise InputError(f"'{wanted}' {problem}; choose from: {', '.join(fitting or names)}")
    return fitting[0]


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
