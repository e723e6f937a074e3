"""Words a comparison for the terminal and for pages: numbers, table cells, and notes on what is missing.

Text from files is printed on one line, without markup and without characters that a terminal would obey.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile

from rag_zeval.decisions.comparison import Changed, Comparison, Coverage, Difference, Pairwise
from rag_zeval.decisions.sides import Side
from rag_zeval.results import Judged
from rag_zeval.statistics.bootstrap import BootstrapEstimate
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import counted, decimals_beside, one_line, percent, visible, with_interval

DASH = "–"
MOST_EDITS = 10  # most edited cases that are named
LOWER = "lower is better"
ALPHA = 0.05  # a change with a larger p may be chance
COLUMNS = ("slice", "n", "A", "B", "B - A", "p", "p (Holm)")
CORRECTED = ("corrected", "labels", *COLUMNS[2:])


def shown(estimate: BootstrapEstimate | None, number: str = ".3f") -> str:
    """Format a value with its interval. number: the format of each number."""
    return DASH if estimate is None else with_interval(estimate.value, estimate.low, estimate.high, number)


def shown_p(p: float | None) -> str:
    """Format a p-value. It has more digits than three if it would else seem to be on the other side of ALPHA."""
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.{decimals_beside(p, ALPHA)}f}"


def significant(p: float | None) -> bool:
    return p is not None and p <= ALPHA


def tables(comparison: Comparison) -> list[tuple[Sequence[str], list[list[str]]]]:
    """Return heads and rows of two tables: all cases and slices, and the same by people's labels if there are any."""
    of_each = ((COLUMNS, (comparison.overall, *comparison.slices)), (CORRECTED, comparison.corrected))
    return [(heads, [_cells(one) for one in differences]) for heads, differences in of_each if differences]


def _cells(difference: Difference) -> list[str]:
    means = (shown(difference.first), shown(difference.second), shown(difference.change, "+.3f"))
    return [difference.slice_tag, str(difference.n), *means, shown_p(difference.p), shown_p(difference.p_holm)]


def coverage(name: str, of: Coverage, decimals: int = 1) -> str:
    return f"{name}: {of.scored} of {of.cases} cases have a score ({percent(of.share, decimals)})"


def truthless(n: int) -> str:
    return f"{counted(n, 'question')} without ground truth"


def other_judge(comparison: Comparison) -> str | None:
    """Return a warning if A and B have different judges, else None."""
    return _other_judge("AB", comparison.judges)


def _other_judge(names: Iterable[str], judges: Sequence[str | None]) -> str | None:
    if len(set(judges)) == 1:
        return None
    judged: dict[str | None, list[str]] = {}
    for name, judge in zip(names, judges, strict=True):
        judged.setdefault(judge, []).append(name)
    said = _where_apart([one_line(judge) for judge in judged if judge])
    (first, by), *others = [(" and ".join(of), said.pop(0) if judge else "?") for judge, of in judged.items()]
    verb = "was" if judges.count(judges[0]) == 1 else "were"
    told = ", ".join([f"{first} {verb} judged by {by}", *(f"{of} by {judge}" for of, judge in others)])
    return f"{told}, so the change could come from the judge"


def _where_apart(judges: Sequence[str]) -> list[str]:
    """Return each judge without the words that all have at the beginning and at the end, but with one before the rest.

    >>> _where_apart(["http://host/v1 old prompt paper 5f68 reader 2", "http://host/v1 new prompt paper 5f68 reader 2"])
    ['http://host/v1 old …', 'http://host/v1 new …']
    """
    if len(judges) < 2:
        return [*judges]
    words = [judge.split() for judge in judges]
    start = max(0, _shared(words) - 1)
    rest = [one[start:] for one in words]
    end = min(_shared([one[::-1] for one in rest]), min(map(len, rest)) - 1)
    before, after = "… " * (start > 0), " …" * (end > 0)
    return [f"{before}{' '.join(one[: len(one) - end]).rstrip(',')}{after}" for one in rest]


def _shared(texts: Sequence[Sequence[str]]) -> int:
    """Return the number of words that all texts have at the beginning."""
    return sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False)))


def edits(edited: Mapping[str, Sequence[str]], between: str = "A and B") -> str | None:
    """Return a note that names the edited cases, MOST_EDITS at most; None if there are none."""
    if not edited:
        return None
    told = [f"{one_line(case)} ({', '.join(fields)})" for case, fields in islice(edited.items(), MOST_EDITS)]
    more = f" and {len(edited) - len(told)} more" if len(edited) > len(told) else ""
    cases = counted(len(edited), "case")
    return f"not compared: {cases} whose texts were edited between {between}: {', '.join(told)}{more}"


def notes(comparison: Comparison) -> list[str]:
    """Return notes on a comparison, a line each: coverage, cases that are left out, and what these could hide."""
    lines = [coverage("A", comparison.first) + "; " + coverage("B", comparison.second)]
    if comparison.lower_is_better:
        lines.append(LOWER)
    if said := other_judge(comparison):
        lines.append(said)
    if comparison.only_first or comparison.only_second:
        lines.append(f"not compared: cases only in A: {comparison.only_first}, only in B: {comparison.only_second}")
    if said := edits(comparison.edited):
        lines.append(said)
    if comparison.without_truth:
        lines.append(f"not compared: {truthless(comparison.without_truth)}")
    if comparison.lost:
        lines.append(f"not compared: {counted(comparison.lost, 'case')} without a score in A, in B or in both")
    if comparison.bounds:
        low, high = comparison.bounds
        lines.append(
            f"B - A over all cases, if missing scores could be anything from 0 to 1: between {low:+.3f} and {high:+.3f}"
        )
    lines += comparison.unlabelled
    if comparison.corrected and (said := _people_differ(comparison.overall, comparison.corrected[0])):
        lines.append(said)
    return lines


def _people_differ(judge: Difference, people: Difference) -> str | None:
    """Return a line if the judge sees a change over all cases that people's labels do not confirm, else None."""
    if not significant(judge.p) or judge.change is None:
        return None
    if people.change is None or not significant(people.p):
        return (
            "the judge sees a change that people's labels do not confirm: it may be the judge's taste, such as for "
            "longer answers, or there are too few labels"
        )
    if judge.change.value * people.change.value < 0:
        return "the judge and people's labels see opposite changes: trust the labels"
    return None


def print_sides(sides: Sequence[Side], letters: Iterable[str]) -> None:
    """Print the file of each letter, and the version of the question set that it answered."""
    for letter, side in zip(letters, sides, strict=True):
        print_line(f"{letter}: {side.name}" + (f" (question set {side.version})" if side.version else ""))


def print_comparison(comparison: Comparison, most: int) -> None:
    """Print the numbers of a comparison, and at most `most` of the questions that changed most.

    Half of these got worse and half got better, if there are enough of both.
    """
    metric = one_line(comparison.metric)
    print_line(f"\n{metric}")
    for line in notes(comparison):
        print_line(f"  {line}")
    for heads, rows in tables(comparison):
        print_framed(heads, rows)
    worse, better = len(comparison.worse), len(comparison.better)
    of_worse = min(worse, max((most + 1) // 2, most - better))
    of_better = min(better, most - of_worse)
    most_changed = {"worse": comparison.worse[:of_worse], "better": comparison.better[:of_better]}
    for title, changed in most_changed.items():
        if changed:
            signs = (
                " (+ supported, - not supported)"
                if any(one.first.claims or one.second.claims for one in changed)
                else ""
            )
            print_line(f"{metric}: got {title} most{signs}")
        for one in changed:
            _print_changed(one)
    if left := worse - of_worse + better - of_better:
        counts = f"{worse - of_worse} got worse, {better - of_better} better"
        said = counted(left, "more question")
        print_line(f"{metric}: {said} changed ({counts}); --changed {worse + better} prints all of them")


def _print_changed(changed: Changed) -> None:
    before, after = changed.first, changed.second
    where = f"{before.case} ({before.slice_tag})" if before.slice_tag else before.case
    print_line(f"{before.score:.3f} → {after.score:.3f}  {one_line(where)}: {one_line(before.question)}")
    print_framed(("A", "B"), [("\n".join(_claims(before)), "\n".join(_claims(after)))])


def _claims(judged: Judged) -> list[str]:
    if not judged.claims:
        return [one_line(judged.answer)]
    return [f"{'+' if one['is_supported'] else '-'} {one_line(one['claim'])}" for one in judged.claims]


def print_pairwise(pairwise: Pairwise) -> None:
    print_line(f"\n{one_line(pairwise.metric)}")
    if pairwise.lower_is_better:
        print_line(f"  {LOWER}")
    if pairwise.without_truth:
        print_line(f"  not compared: {truthless(pairwise.without_truth)}")
    if said := _other_judge((one_line(one.name) for one in pairwise.systems), [one.judge for one in pairwise.systems]):
        print_line(f"  {said}")
    systems = [(one.name, f"{one.scored} of {one.cases}", shown(one.mean)) for one in pairwise.systems]
    print_framed(("system", "scored", "mean"), systems)
    pairs = [
        (one.first, one.second, str(one.n), shown(one.change, "+.3f"), shown_p(one.p_holm)) for one in pairwise.pairs
    ]
    print_framed(("A", "B", "n", "B - A", "p (Holm)"), pairs)
    apart = round(pairwise.power * len(pairwise.pairs))
    print_line(f"discriminative power: {apart} of {len(pairwise.pairs)} pairs told apart at p ≤ 0.05")


def print_line(text: str) -> None:
    """Print text without markup or wrapping. Characters that a terminal would obey are escaped."""
    from rich.console import Console

    Console(markup=False, highlight=False).print(visible(text), soft_wrap=True)
