"""Tables that show which metrics are informative: for the terminal, as an HTML page and as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.csv_files import sheet_text
from rag_zeval.decisions.metric_validity import APART, BEST, DIFFERENCE, MEAN, RECALL, TAU, Finding
from rag_zeval.files import write_chunks, write_text
from rag_zeval.templates import TEMPLATES, templates
from rag_zeval.text import with_interval

NOTHING = "-"  # shown for a missing number


@dataclass(frozen=True)
class Table:
    """A table with its title, and a note on how to read it."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Validity:
    """All findings about the metrics of result files.

    of_metrics: by metric. pairs: one for each pair of metrics. judges: those of each pair of judges of one metric.
    weights: findings about `ccrs_ac`, by the weight of its exact match.
    """

    of_metrics: Mapping[str, Sequence[Finding]]
    pairs: Sequence[Finding]
    judges: Sequence[Sequence[Finding]]
    weights: Mapping[float, Sequence[Finding]]

    def tables(self) -> Iterator[Table]:
        """Yield the tables that have findings."""
        heads = ("answers", "mean", "at the best value", "pairs of systems told apart")
        yield Table(
            "Each metric",
            "A metric that gives most answers its best value, or tells no systems apart, says little about them. "
            "In brackets: 95% intervals over cases, by bootstrap, or Wilson's for shares. Systems are told "
            "apart by a paired randomisation test, p ≤ 0.05 after Holm's correction.",
            ("metric", *heads),
            [(name, *_cells(found)) for name, found in self.of_metrics.items()],
        )
        if self.pairs:
            names = list(self.of_metrics)
            taus = {
                frozenset((one.metric, one.other)): one.value
                for one in (*self.pairs, *(found[0] for found in self.judges))
            }
            numbers = [str(at) for at in range(1, len(names) + 1)]
            matrix = [
                (
                    f"{number} {name}",
                    *("" if other == name else _tau(taus.get(frozenset((name, other)))) for other in names),
                )
                for number, name in zip(numbers, names, strict=True)
            ]
            yield Table(
                "Correlation of metrics (Kendall's tau-b)",
                "1: both metrics rank all answers alike, so one of them is enough. 0: they have nothing in common. "
                "-1: they rank them in opposite orders. "
                f"{NOTHING}: one of them gives all answers the same score, or they share no answer.",
                ("", *numbers),
                matrix,
            )
            ranked = sorted(
                (one for one in self.pairs if one.value is not None), key=lambda one: -abs(one.value or 0.0)
            )
            yield Table(
                "Pairs of metrics, the strongest correlation first",
                "In brackets: 95% bootstrap intervals over cases.",
                ("metric", "metric", "answers", "tau-b"),
                [(one.metric, one.other, str(one.n), _shown(one)) for one in ranked],
            )
        if self.judges:
            yield Table(
                "Two judges of one metric",
                "B - A: the difference of their means. Judges that agree on the order but not on the mean have "
                "different standards: compare versions by one of them only.",
                ("judge A", "judge B", "answers", "tau-b", "same score", "B - A"),
                [(found[0].metric, found[0].other, str(found[0].n), *map(_shown, found)) for found in self.judges],
            )
        if self.weights:
            yield Table(
                "The weight λ of the exact match in ccrs_ac",
                f"λ · exact match + (1 - λ) · the judge's number. The last column is tau-b with {RECALL}.",
                ("λ", *heads, f"tau-b with {RECALL}"),
                [
                    (f"{weight:g}", *_cells(found), *([_shown(one) for one in found if one.what == TAU] or [NOTHING]))
                    for weight, found in self.weights.items()
                ],
            )

    def rows(self) -> Iterator[Sequence[str]]:
        """Yield each finding as a row of cells, in the order of COLUMNS."""
        of_weights = ((f" λ={weight:g}", found) for weight, found in self.weights.items())
        groups = [("", found) for found in (*self.of_metrics.values(), self.pairs, *self.judges)]
        for suffix, one in ((suffix, one) for suffix, found in (*groups, *of_weights) for one in found):
            numbers = [one.value, *(one.interval or (None, None))]
            yield one.what, one.metric + suffix, one.other, str(one.n), *("" if x is None else repr(x) for x in numbers)


COLUMNS = ("what", "metric", "other", "n", "value", "low", "high")


def _shown(one: Finding) -> str:
    low, high = one.interval or (None, None)
    return with_interval(one.value, low, high, "+.3f" if one.what == DIFFERENCE else ".3f")


def _tau(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _cells(found: Sequence[Finding]) -> list[str]:
    """Return the cells of one metric: answers, mean, share at the best value, and pairs of systems told apart."""
    by_kind = {one.what: one for one in found}
    apart = by_kind.get(APART)
    told = NOTHING if apart is None else f"{round((apart.value or 0) * apart.n)} of {apart.n}"
    return [str(by_kind[MEAN].n), _shown(by_kind[MEAN]), _shown(by_kind[BEST]), told]


def write_page(path: Path, files: Sequence[str], tables: Sequence[Table]) -> None:
    """Write the tables as one HTML file. All text in it is escaped."""
    page = templates(TEMPLATES).get_template("metrics.html").generate(files=files, tables=tables)
    write_chunks(path, page)


def write_csv(path: Path, validity: Validity) -> None:
    """Write every finding as a row of CSV, with its interval and n."""
    write_text(path, sheet_text(COLUMNS, [*validity.rows()]))
