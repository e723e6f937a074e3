"""`python -m eval_benchmarks.compare RUN FIRST SECOND`: a paired test of any two scorers of a finished run.

FIRST and SECOND are scorers as the tables name them: `bleu`, or with its model `"rag_zeval by checkpoints/nano-judge"`
(the scorer alone is enough where it has one model). Nothing is scored again.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.streams import command_line

ABOUT = """$ python -m eval_benchmarks.compare runs/bench/nano bleu rouge_l

Run a paired test of two scorers of a finished benchmark run. Nothing is scored again.

Name a scorer as the tables do: bleu, or with its model "rag_zeval by checkpoints/nano-judge". \
The scorer alone is enough if it has only one model.
"""
HEADS = ("metric", "difference", "95% interval", "p", "n", "coverage")


def compare_scorers(
    run: Annotated[Path, typer.Argument(help="The folder of a finished benchmark run.")],
    first: Annotated[str, typer.Argument(help="A scorer, as the tables name it.")],
    second: Annotated[str, typer.Argument(help="The scorer to compare it with.")],
) -> None:
    """Print a table for each benchmark with scores of both. Raises InputError for a name that is not one scorer's."""
    from eval_benchmarks.bench_manifest import read_run
    from eval_benchmarks.output.columns import TEST_COLUMNS, make_table
    from eval_benchmarks.output.comparisons import pair_rows
    from eval_benchmarks.output.table import open_console, show
    from eval_benchmarks.trials import BenchResults, group_trials

    settings, trials = read_run(run)
    results = BenchResults(group_trials(trials), settings.bootstrap.draws, settings.bootstrap.seed)
    names = {scorer.name: scorer.scorer for scorer in results.scorers}
    first, second = _find(first, names), _find(second, names)
    columns = {head: TEST_COLUMNS[head] for head in HEADS}
    tables = []
    for benchmark, scorers in results.by_benchmark.items():
        by_name = {scorer.name: scorer for scorer in scorers}
        if first in by_name and second in by_name:
            rows = pair_rows(results, by_name[first], by_name[second])
            tables.append(make_table(f"{benchmark}: {first}, minus {second}", columns, rows))
    if not tables:
        raise InputError(f"{run}: no benchmark has scores of both {first} and {second}")
    show(open_console(), tables, ["The p-values are not corrected for testing several metrics."])


def _find(wanted: str, names: dict[str, str]) -> str:
    """The full name of a scorer, given by it or by the scorer alone."""
    fitting = [name for name, scorer in names.items() if wanted in (name, scorer)]
    if wanted in fitting:
        return wanted
    if len(fitting) != 1:
        problem = "has several models" if fitting else "is not a scorer of this run"
        raise InputError(f"'{wanted}' {problem}; choose from: {', '.join(fitting or names)}")
    return fitting[0]


main = command_line(compare_scorers, "eval_benchmarks.compare", ABOUT)

if __name__ == "__main__":
    sys.exit(main())
