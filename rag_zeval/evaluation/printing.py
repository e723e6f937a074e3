"""What `rag-zeval evaluate` prints: before a run what it would ask, and after it scores and costs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rag_zeval.budget import Price
from rag_zeval.evaluation.metrics import metric_name, places
from rag_zeval.evaluation.run import EvaluationRun
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.cache import ReplyCache
from rag_zeval.scoring.estimate import LOOKED_AT, asked, drawn_to_look_at, open_with_mock_judge
from rag_zeval.scoring.opening import asks_judge
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import Summary, column_cells, cost_lines
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import one_line

EXAMPLES, SHOWN = 3, 200  # cases that a dry run shows, and characters of each text


def print_dry_run(run: EvaluationRun, price: Price | None) -> None:
    """Print the first cases as they will be judged, and a table of what the run would ask. No judge is asked."""
    for at, case in enumerate(run.cases.cases[:EXAMPLES]):
        print(f"case {one_line(case.id)}")
        print(f"  question: {_beginning(case.question)}")
        for system, answer in case.answers.items():
            print(f"  answer of {one_line(system)}: {_beginning(answer or case.unanswered.get(system, ''))}")
        for source in run.sources:
            text = run.cases.example(at, source).reference
            print(f"  {NOUNS[source]}: {_beginning(text) or 'none'}")
    judgements = len(run.cases.cases) * run.judges.trials
    rows = []
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        for name, source in places([name for name in run.scorers if asks_judge(name)], run.sources):
            examples = [run.cases.example(at, source) for at in drawn_to_look_at(len(run.cases.cases))]
            one = asked(open_with_mock_judge(name, run.judges.asking, cache), examples, judgements)
            dollars = "no price" if price is None else f"{price.of(one.prompt_tokens, one.completion_tokens):.2f}"
            counts = (judgements, one.calls, one.prompt_tokens, one.completion_tokens)
            rows.append((metric_name(name, source), *(f"{count:,.0f}" for count in counts), dollars))
    print_framed(("metric", "judgements", "calls", "tokens in", "tokens out", "dollars"), rows)
    print(
        f"No judge was asked. A rule-based mock judge was run on at most {LOOKED_AT} cases to count calls and tokens "
        "(words and punctuation marks). A real judge writes longer replies, so this is a rough estimate. Scorers that "
        "ask no judge are not listed."
    )


def _beginning(text: str) -> str:
    return one_line(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)")


def print_summary(summary: Summary, spending: Spending) -> None:
    """Print the mean of each metric and system, the same by slice, and what the run has cost."""
    heads = ["metric", "system", "mean", "95% interval", "answers scored"]
    trials = any(column.trial_sd is not None for column in summary.columns)
    rows = []
    for column in summary.columns:
        cells = [column.metric, column.system, *column_cells(column)]
        if trials:
            cells.append("" if column.trial_sd is None else f"{column.trial_sd:.3f}")
        rows.append(cells)
    print_framed([*heads, "SD over trials"] if trials else heads, rows)
    if summary.slices:
        of_slices = [(str(one.slice_tag), one.metric, one.system, *column_cells(one)) for one in summary.slices]
        print_framed(["slice (worst first)", *heads], of_slices)
    print_framed(("", ""), cost_lines(summary, spending))
