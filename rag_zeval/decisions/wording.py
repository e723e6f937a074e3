"""How a comparison is worded, in the terminal and on pages: numbers, cells of tables, notes on what is missing."""

from __future__ import annotations

from rag_zeval.decisions.comparison import Comparison, Coverage, Difference
from rag_zeval.statistics.bootstrap import BootstrapEstimate
from rag_zeval.text import one_line

DASH = "–"
COLUMNS = ("slice", "n", "A", "B", "B - A", "p", "p (Holm)")


def shown(estimate: BootstrapEstimate | None, number: str = ".3f") -> str:
    """The value with its interval; `number` is how each is formatted."""
    if estimate is None:
        return DASH
    return f"{estimate.value:{number}} [{estimate.low:{number}}, {estimate.high:{number}}]"


def shown_p(p: float | None) -> str:
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def cells(difference: Difference) -> list[str]:
    """A row of the table whose head is COLUMNS."""
    means = (shown(difference.first), shown(difference.second), shown(difference.change, "+.3f"))
    tested = difference.p if difference.n else None
    return [difference.slice_tag, str(difference.n), *means, shown_p(tested), shown_p(difference.p_holm)]


def coverage(name: str, of: Coverage) -> str:
    return f"{name}: {of.scored} of {of.cases} cases have a score ({of.share:.1%})"


def other_judge(comparison: Comparison) -> str | None:
    """What is to be said where A and B were not judged by the same; None where they were."""
    ours, theirs = (one_line(judge) if judge else "?" for judge in comparison.judges)
    return f"A was judged by {ours}, B by {theirs}, so the change could come from the judge" if ours != theirs else None


def notes(comparison: Comparison) -> list[str]:
    """What a reader has to know of the pairs: coverage, the cases left out, and what these could hide. A line each."""
    lines = [coverage("A", comparison.first) + "; " + coverage("B", comparison.second)]
    if comparison.lower_is_better:
        lines.append("lower is better")
    if said := other_judge(comparison):
        lines.append(said)
    if comparison.only_first or comparison.only_second:
        lines.append(f"not compared: {comparison.only_first} cases only in A, {comparison.only_second} only in B")
    if comparison.lost:
        lines.append(f"not compared: {comparison.lost} cases without a score in A, in B or in both")
    if comparison.bounds:
        low, high = comparison.bounds
        lines.append(
            f"B - A over all cases, if missing scores could be anything from 0 to 1: between {low:+.3f} and {high:+.3f}"
        )
    return lines
