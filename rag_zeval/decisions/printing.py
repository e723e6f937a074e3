"""Comparisons in the terminal. Foreign text is shown as it is, on one line, without what a terminal would obey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rag_zeval.decisions.comparison import Changed, Comparison
from rag_zeval.decisions.gate import Check, passed
from rag_zeval.decisions.pairwise import Pairwise
from rag_zeval.decisions.wording import COLUMNS, cells, notes, shown, shown_p
from rag_zeval.results import Judged
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import one_line


def print_sides(names: Sequence[str]) -> None:
    """Which letter stands for which file."""
    for letter, name in zip("AB", names, strict=True):
        _print(f"{letter}: {name}")


def print_comparison(comparison: Comparison, most: int) -> None:
    """Its numbers, and the questions that changed most: `most` of them at most, half of them worse where there are."""
    metric = one_line(comparison.metric)
    _print(f"\n{metric}")
    for line in notes(comparison):
        _print(f"  {line}")
    print_framed(COLUMNS, [cells(one) for one in (comparison.overall, *comparison.slices)])
    worse, better = len(comparison.worse), len(comparison.better)
    of_worse = min(worse, max((most + 1) // 2, most - better))
    of_better = min(better, most - of_worse)
    shown = {"worse": comparison.worse[:of_worse], "better": comparison.better[:of_better]}
    for title, changed in shown.items():
        if changed:
            _print(f"{metric}: got {title} most (+ supported, - not supported)")
        for one in changed:
            _print_changed(one)
    if left := worse - of_worse + better - of_better:
        counts = f"{worse - of_worse} got worse, {better - of_better} better"
        _print(f"{metric}: {left} more questions changed ({counts}); --changed {worse + better} prints all of them")


def _print_changed(changed: Changed) -> None:
    before, after = changed.first, changed.second
    where = f"{before.case} ({before.slice_tag})" if before.slice_tag else before.case
    _print(f"{before.score:.3f} → {after.score:.3f}  {one_line(where)}: {one_line(before.question)}")
    print_framed(("A", "B"), [("\n".join(_claims(before)), "\n".join(_claims(after)))])


def _claims(judged: Judged) -> list[str]:
    if not judged.claims:
        return [one_line(judged.answer)]
    return [f"{'+' if one['is_supported'] else '-'} {one_line(one['claim'])}" for one in judged.claims]


def print_pairwise(pairwise: Pairwise) -> None:
    _print(f"\n{one_line(pairwise.metric)}")
    systems = [(one.name, f"{one.scored} of {one.cases}", shown(one.mean)) for one in pairwise.systems]
    print_framed(("system", "scored", "mean"), systems)
    pairs = [
        (one.first, one.second, str(one.n), shown(one.change, "+.3f"), shown_p(one.p_holm)) for one in pairwise.pairs
    ]
    print_framed(("A", "B", "n", "B - A", "p (Holm)"), pairs)
    apart = round(pairwise.power * len(pairwise.pairs))
    _print(f"discriminative power: {apart} of {len(pairwise.pairs)} pairs told apart at p ≤ .05")


def print_checks(checks: Sequence[Check]) -> None:
    """A line for each check, and the verdict."""
    for check in checks:
        _print(f"{check.outcome:<7}  {one_line(check.metric)}, {one_line(check.name)}: {check.reason}")
    counts = Counter(check.outcome for check in checks)
    verdict = "passed" if passed(checks) else "failed"
    _print(f"gate {verdict}: {counts['failed']} of {len(checks)} checks failed, {counts['warning']} warnings")


def _print(content: Any) -> None:
    from rich.console import Console

    Console(markup=False, highlight=False).print(content, soft_wrap=isinstance(content, str))
