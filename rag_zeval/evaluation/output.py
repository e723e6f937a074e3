"""Prints what a run of `rag-zeval evaluate` would ask, and its scores and costs. Also writes the scores as CSV."""

from collections.abc import Iterable, Mapping
from itertools import compress, groupby, islice
from pathlib import Path

from rag_zeval.budget import Price
from rag_zeval.cases.case import CaseSet
from rag_zeval.csv_files import sheet_text
from rag_zeval.evaluation.metrics import CASE_COLUMNS, metric_name, places
from rag_zeval.evaluation.run import EvaluationRun
from rag_zeval.files import Row, write_text
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.window import card_of, open_window
from rag_zeval.results import over_trials
from rag_zeval.scoring.estimate import LOOKED_AT, drawn_to_look_at, planned_calls
from rag_zeval.scoring.opening import asks_judge
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import Column, Summary, column_cells, cost_lines, passes, passing_cell
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import counted, one_line

EXAMPLES, SHOWN = 3, 200  # cases that a dry run shows, and characters of each text
SLICE_ROWS = 20  # most rows of the table by slice; but each metric and system has one


def print_dry_run(run: EvaluationRun, price: Price | None) -> None:
    """Print the first cases as they will be judged, and a table of what the run would ask. No judge is asked."""
    for at, case in enumerate(run.cases.cases[:EXAMPLES]):
        print(f"case {one_line(case.id)}")
        print(f"  question: {_beginning(case.question)}")
        for system, answer in case.answers.items():
            print(f"  answer of {one_line(system)}: {_beginning(answer or case.unanswered.get(system, ''))}")
        for source in run.sources:
            text = run.cases.example(at, source).reference
            number = f" ({len(case.contexts)})" if source == "contexts" else ""
            print(f"  {NOUNS[source]}{number}: {_beginning(text) or 'none'}")
    count = len(run.cases.cases)
    judgements, looked_at = count * run.judges.trials, drawn_to_look_at(count)
    asked_about = places([name for name in run.scorers if asks_judge(name)], run.sources)
    examples = ((name, [run.cases.example(at, source) for at in looked_at]) for name, source in asked_about)
    card, window = card_of(run.judges.model), open_window(run.judges.model)
    planned = list(planned_calls(examples, run.judges.asking, judgements, card, window))
    rows = [
        (metric_name(*place), f"{judgements:,}", *calls.cells, calls.dollars(price, "no price"))
        for place, calls in zip(asked_about, planned, strict=True)
    ]
    for place, calls in zip(asked_about, planned, strict=True):
        for line in calls.parts.lines(metric_name(*place), count) if calls.parts else ():
            print(line)
    print_framed(("metric", "judgements", "calls", "tokens in", "tokens out", "dollars"), rows)
    print(
        f"No judge was asked. A rule-based mock judge was run on at most {LOOKED_AT} cases to count calls and tokens "
        "(words and punctuation marks). A real judge writes longer replies, so this is a rough estimate. Scorers that "
        "ask no judge are not listed."
    )


def _beginning(text: str) -> str:
    return one_line(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)")


def print_summary(summary: Summary, spending: Spending, thresholds: Mapping[str, float]) -> None:
    """Print the mean of each metric and system, the same for their worst slices, and what the run has cost.

    thresholds: for each metric, the worst score with which an answer passes.
    """
    heads = ["metric", "system", "mean", "95% interval", "scored", *(["threshold"] if thresholds else [])]

    def cells(column: Column) -> list[str]:
        passing = [passing_cell(column, thresholds)] if thresholds else []
        return [column.metric, column.system, *column_cells(column), *passing]

    trials = any(column.trial_sd is not None for column in summary.columns)
    rows = []
    for column in summary.columns:
        over_trials = "" if column.trial_sd is None else f"{column.trial_sd:.3f}"
        rows.append([*cells(column), *([over_trials] if trials else [])])
    print_framed([*heads, "SD over trials"] if trials else heads, rows)
    if summary.slices:
        named = [len({one.metric for one in summary.columns}) > 1, len({one.system for one in summary.columns}) > 1]
        shown = [*named, *[True] * len(heads[2:])]  # no column in which all rows are the same: terminals are narrow
        most = max(1, SLICE_ROWS // len(summary.columns))
        groups = groupby(summary.slices, lambda one: (one.metric, one.system))
        worst = [one for _, of_column in groups for one in islice(of_column, most)]
        of_slices = [(str(one.slice_tag), *compress(cells(one), shown)) for one in worst]
        print_framed(["slice (worst first)", *compress(heads, shown)], of_slices)
        if left := len(summary.slices) - len(worst):
            print(f"{counted(left, 'more row')} by slice: see the report (--html, or later `rag-zeval report`)")
    print_framed(("", ""), cost_lines(summary, spending))


def write_scores(path: Path, cases: CaseSet, rows: Iterable[Row], thresholds: Mapping[str, float]) -> None:
    """Write a CSV file with a row for each answer of each system.

    It has columns for id, system, slice, question and answer. Then follow score and status of each metric, and whether
    the answer passes if the metric has a threshold. A missing score is an empty cell. With several trials, a score is
    the mean over those that have one.
    """
    judged = {(one.case, one.system, one.metric): one for one in over_trials(rows)}
    metrics = list(dict.fromkeys(metric for _, _, metric in judged))
    table = []
    for case in cases.cases:
        for system, answer in case.answers.items():
            cells = [case.id, system, case.slice_tag or "", case.question, answer]
            for metric in metrics:
                one = judged.get((case.id, system, metric))
                score = None if one is None else one.score
                cells += ["" if score is None else repr(score), one.status if one else "not judged"]
                if metric in thresholds:
                    passed = score is not None and passes(metric, score, thresholds[metric])
                    cells.append("" if score is None else "yes" if passed else "no")
            table.append(cells)
    columns = [
        f"{metric}{more}" for metric in metrics for more in ("", " status", *([" passes"] * (metric in thresholds)))
    ]
    write_text(path, sheet_text([*CASE_COLUMNS, *columns], table))
