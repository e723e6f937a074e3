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
    given = parser.parse_args(argv)
    from eval_benchmarks.output.comparisons import pair_rows
    from eval_benchmarks.output.tables import Table, interval_cell, number, open_console, show, size_cells
    from eval_benchmarks.results import measured
    from eval_benchmarks.run_folder import read_run

    config, results = read_run(given.run)
    scorers = measured(results)
    names = {one.name: one.scorer for one in scorers}
    first, second = (_find(wanted, names) for wanted in (given.first, given.second))
    tables = []
    for benchmark in dict.fromkeys(one.benchmark.name for one in scorers):
        here = {one.name: one for one in scorers if one.benchmark.name == benchmark}
        if first in here and second in here:
            rows = pair_rows(here[first], here[second], config.bootstrap.draws, config.bootstrap.seed)
            lines = [
                (r["metric"], number(r["difference"]), interval_cell(r), number(r["p"], 4), *size_cells(r))
                for r in rows
            ]
            tables.append(Table(f"{benchmark}: {first}, minus {second}", HEADS, lines))
    if not tables:
        raise InputError(f"{given.run}: no benchmark has scores of both {first} and {second}")
    show(open_console(), tables, ["Each p is of its test alone: no correction for testing several metrics."])
    return 0


def _find(wanted: str, names: dict[str, str]) -> str:
    """The full name of a scorer, given by it or by the scorer alone."""
    found = [name for name, scorer in names.items() if wanted in (name, scorer)]
    if wanted in found:
        return wanted
    if len(found) != 1:
        problem = "has several models" if found else "is no scorer of this run"
        raise InputError(f"'{wanted}' {problem}; there is: {', '.join(found or names)}")
    return found[0]


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
