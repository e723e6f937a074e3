"""`python -m eval_benchmarks.compare RUN FIRST SECOND`: a paired test of any two scorers of a finished run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.results import SPENT
from rag_zeval.streams import command_line

if TYPE_CHECKING:
    from eval_benchmarks.trials import ScorerTrials

ABOUT = """$ python -m eval_benchmarks.compare runs/bench/nano bleu rouge_l

Run a paired test of two scorers of a finished benchmark run, and show how often they agree. Nothing is scored again.

Name a scorer as the tables do: bleu, or with its model "rag_zeval by checkpoints/nano-judge". \
The scorer alone is enough if it has only one model. Of several training seeds, name the others with --seed: \
the mean over the seeds is then compared, and the intervals are over seeds and examples.
"""
TESTED = ("metric", "difference", "95% interval", "p", "n", "coverage")
AGREEING = ("metric", "value", "95% interval", "n")


def compare_scorers(
    run: Annotated[Path, typer.Argument(help="The folder of a finished benchmark run.")],
    first: Annotated[str, typer.Argument(help="A scorer, as the tables name it.")],
    second: Annotated[str, typer.Argument(help="The scorer to compare it with.")],
    seed: Annotated[list[str] | None, typer.Option(help="Another training seed of the first scorer.")] = None,
) -> None:
    """Print the paired tests of two scorers, a table for each benchmark that has scores of both.

    Raises InputError for a name that fits no scorer or several, and if no benchmark has scores of both.
    """
    from eval_benchmarks.bench_manifest import read_bench
    from eval_benchmarks.output.columns import TEST_COLUMNS, VALUE_COLUMNS, make_table
    from eval_benchmarks.output.comparisons import SAME, agreement_rows, pair_rows
    from eval_benchmarks.output.table import open_console, show
    from eval_benchmarks.trials import BenchResults, group_trials, over_seeds

    settings, trials = read_bench(run)
    results = BenchResults(group_trials(trials), settings.bootstrap.draws)
    names = {scorer.name: scorer.scorer for scorer in results.scorers}
    first, second, *others = (_find(name, names) for name in (first, second, *(seed or ())))
    seeds = list(dict.fromkeys([first, *others]))  # a seed that is named twice counts once
    others = seeds[1:]
    ours_name = first + (f" and other seeds: {len(others)}" if others else "")
    tested, agreeing = {h: TEST_COLUMNS[h] for h in TESTED}, {h: VALUE_COLUMNS[h] for h in AGREEING}
    tables, notes = [], ["The p-values are not corrected for testing several metrics."]
    if others:
        notes.append(
            "If the seeds differ much, few of them make intervals too narrow and p too small: compare each alone."
        )
    for benchmark, scorers in results.by_benchmark.items():
        by_name = {scorer.name: scorer for scorer in scorers}
        if {*seeds, second} <= by_name.keys():
            ours, theirs = over_seeds([by_name[name] for name in seeds]), by_name[second]
            title = f"{benchmark}: {ours_name}, minus {second}"
            tables.append(make_table(title, tested, pair_rows(results, ours, theirs)))
            if not others:
                alike = f"{benchmark}: how often both say the same (scores at most {SAME} apart)"
                tables.append(make_table(alike, agreeing, agreement_rows(results, ours, theirs)))
            notes += [speed for scorer in (ours, theirs) if (speed := _speed(scorer))]
    if not tables:
        raise InputError(f"{run}: no benchmark has scores of both {ours_name} and {second}")
    show(open_console(), tables, notes)


def _speed(scorer: "ScorerTrials") -> str | None:
    """Return a line that says how many examples a judge scores a minute, one after the other.

    None for a scorer that made no calls.
    """
    rows = [row for trial in scorer.trials for row in trial.scored.values() if row.calls and row.id != SPENT]
    seconds = sum(row.seconds for row in rows)
    if not seconds:
        return None
    speed = f"{60 * len(rows) / seconds:.1f} examples a minute, for each process or open request"
    return f"{scorer.benchmark.name}, {scorer.name}: {speed}"


def _find(wanted: str, names: dict[str, str]) -> str:
    """Return the full name of a scorer. `wanted` is the full name, or the scorer alone if it has one model.

    Raises InputError for another name.
    """
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
