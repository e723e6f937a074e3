"""The statistics of a run as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from rag_zeval.files import Row
from rag_zeval.stages.answer_quality import REASONS


def print_report(statistics: Mapping[str, Any], winnable: Mapping[str, Any], title: str) -> None:
    """Answers by alpha, pairs of alphas, and the questions left for each K, as `response_statistics` counts them."""
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(_answers(statistics["by_alpha"], title))
    console.print("questions {questions}, answered {answered}, failed {failed}".format(**statistics))
    if (identical := statistics["identical"]["any"]) is not None:
        console.print(f"same text at two alphas: {identical:.3f} of questions")
    if (ordered := statistics["strictly_ordered"]) is not None:
        console.print(f"true support falls at every step of alpha: {ordered:.3f} of questions")
    console.print(_pairs(winnable["pairs"], winnable["limits"]), _sets(winnable["sets"], winnable["limits"]))


def _answers(by_alpha: Sequence[Row], title: str) -> Table:
    headings = ("alpha", "answers", "tokens", "cut off", "empty", "repeated", "true support [95%]")
    table = _table(title, headings, no_wrap=True)
    for at in by_alpha:
        shares = ("-" if at[key] is None else f"{at[key]:.3f}" for key in ("unfinished", "empty", "repetition"))
        support = _interval(at["true_support"], at["true_support_low"], at["true_support_high"])
        table.add_row(f"{at['alpha']:g}", str(at["answers"]), f"{at['n_tokens']:.1f}", *shares, support)
    return table


def _pairs(pairs: Sequence[Row], limits: Row) -> Table:
    near = f"near-identical (from {limits['near_identical']:g})"
    headings = ("alphas", "identical", near, "true tie", "near-identical that tie")
    table = _table("two answers to one question: share [95%]", headings, no_wrap=True)
    for pair in pairs:
        shares = (pair[key] for key in ("identical", "near_identical", "tied", "near_identical_tied"))
        alphas = " / ".join(f"{alpha:g}" for alpha in pair["alphas"])
        table.add_row(alphas, *(_interval(share["share"], share["low"], share["high"]) for share in shares))
    return table


def _sets(sets: Sequence[Row], limits: Row) -> Table:
    reasons = [f"{why} ({limits[why]:g})" if isinstance(limits.get(why), float) else why for why in REASONS]
    headings = [heading.replace("_", " ") for heading in ("K", "questions", *reasons, "truly ordered")]
    table = _table("questions that can give K answers, as flagged ones are left out, from left to right", headings)
    for size in sets:
        ordered = "-" if size["truly_ordered"] is None else str(size["truly_ordered"])
        table.add_row(str(size["k"]), str(size["questions"]), *map(str, size["left"].values()), ordered)
    return table


def _table(title: str, headings: Sequence[str], no_wrap: bool = False) -> Table:
    return Table(*(Column(heading, justify="right", no_wrap=no_wrap) for heading in headings), title=title)


def _interval(share: float | None, low: float | None, high: float | None) -> str:
    return "-" if share is None else f"{share:.3f} [{low:.3f}, {high:.3f}]"
