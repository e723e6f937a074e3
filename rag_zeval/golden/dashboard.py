"""Shows versions of a system side by side: the metrics of each, over all cases and by slice, and how they changed.

A version's values are over all of its own cases. Whether it is better or worse than the previous version is decided on
the cases of both, as in `compare`. A missing value is shown as missing with the reason in a note, never as 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag_zeval.cases.case import ALL, slice_name
from rag_zeval.decisions.amounts import AMOUNTS, less_is_better
from rag_zeval.decisions.comparison import compare_sides, estimate
from rag_zeval.decisions.sides import Side, check_different, file_and_system, paired, read_side
from rag_zeval.decisions.wording import print_line, significant
from rag_zeval.errors import InputError
from rag_zeval.golden.kinds import CORRECTNESS, FAITHFULNESS, RELEVANCE, metric_of
from rag_zeval.golden.release_measures import with_measures
from rag_zeval.progress import Progress
from rag_zeval.results import Judged
from rag_zeval.statistics.bootstrap import BootstrapEstimate
from rag_zeval.terminal_tables import print_table
from rag_zeval.text import one_line

# Column heads, each with the measure that the column always shows, or with patterns for its metric (see `metric_of`).
COLUMNS: Mapping[str, str | Sequence[str]] = {
    "recall@5": "recall@5",
    "faithfulness": FAITHFULNESS,
    "relevance": RELEVANCE,
    "correctness": CORRECTNESS,
    "p95 latency (s)": "latency_p95",
    "cost of 1,000 ($)": "cost_per_1000",
}
MEASURED = [head for head, shown in COLUMNS.items() if isinstance(shown, str)]


@dataclass(frozen=True)
class Column:
    """A column of the dashboard.

    metric: the metric or measure that it shows (see `golden.release_measures`); "" if no file has one.
    """

    head: str
    metric: str

    @property
    def lower_is_better(self) -> bool:
        return less_is_better(self.metric)

    @property
    def digits(self) -> int:
        """The number of decimal places of its values."""
        return 2 if self.metric in AMOUNTS else 3


@dataclass(frozen=True)
class Cell:
    """A version's value in a column and a slice.

    cases: number of cases. scored: how many of them have a score. value: None if none has. moved: "better" or "worse"
    if the version differs from the previous one by more than noise, "" if it does not or if that is unknown.
    """

    cases: int
    scored: int
    value: BootstrapEstimate | None
    moved: str


@dataclass(frozen=True)
class Dashboard:
    """Versions of a system with their values by slice and column.

    cases: by slice, the number of cases of each version. cells: by slice, version and column. Versions and columns are
    numbered from 0. There is no cell if the version has no row of the metric. notes: lines on missing values and their
    reasons, and other remarks.
    """

    versions: Sequence[str]
    columns: Sequence[Column]
    cases: Mapping[str, Sequence[int]]
    cells: Mapping[tuple[str, int, int], Cell]
    notes: Sequence[str]

    def missing(self, slice_tag: str, version: int, column: int) -> str:
        """Return in words why there is no value, or "" if there is one."""
        cell = self.cells.get((slice_tag, version, column))
        if not self.cases[slice_tag][version]:
            return "no cases"
        if cell is None:
            return "not asked" if (ALL, version, column) in self.cells else "missing"
        return "" if cell.value else f"none of {cell.cases} scored"


def build_dashboard(specs: Sequence[str], metrics: Sequence[str] = ()) -> Dashboard:
    """Build the dashboard of result files, oldest version first. Each is `FILE` or `FILE#SYSTEM` (see `read_side`).

    metrics: the metrics and measures to show; by default those of COLUMNS that any file has. Raises InputError for a
    file that cannot be read or is given twice, for a metric that no file has, and if there is nothing to show.
    """
    check_different("dashboard", specs)
    sides, versions = [read_side(spec) for spec in specs], _versions(specs)
    names = [name for side in sides for name in side.judged]
    columns = [Column(name, name) for name in dict.fromkeys(metrics)] or [
        Column(head, shown if isinstance(shown, str) else metric_of(shown, names) or "")
        for head, shown in COLUMNS.items()
    ]
    notes, kept = [], []
    for column in columns:
        lacking: dict[str, list[str]] = defaultdict(list)
        for at, side in enumerate(sides):
            reason = f"{column.head} ({column.metric or 'no such metric in any file'})"
            try:
                sides[at] = with_measures(side, [column.metric])
            except InputError as error:
                reason = str(error).removeprefix(f"{side.name}: ")
            if column.metric not in sides[at].judged:
                lacking[reason].append(versions[at])
        if sum(map(len, lacking.values())) < len(sides):
            kept.append(column)
            notes += [f"missing in {', '.join(names)}: {reason}" for reason, names in lacking.items()]
        elif metrics:
            raise InputError(f"--metric {column.metric}: no file has it. {sides[0].name} has: {_list(sides[0])}")
        else:
            notes += [f"not shown, as no version has it: {reason}" for reason in lacking]
    if not kept:
        raise InputError(f"dashboard: no file has its numbers; name some of yours with --metric: {_list(sides[0])}")
    columns = kept
    counted = [_by_slice(side.cases.values()) for side in sides]
    tags = {tag for of_side in counted for tag in of_side} - {ALL}
    slices = [ALL, *(sorted(tags) if len(tags) > 1 else ())]
    moved: list[dict[tuple[str, int], str]] = [{}]  # one for each version
    with Progress() as progress, progress.job("comparing versions", len(sides) - 1) as job:
        for before, after in pairwise(zip(versions, sides, strict=True)):
            moved.append(_moved(before, after, columns, notes))
            job.advance()
    cells = {}
    for version, side in enumerate(sides):
        for at, column in enumerate(columns):
            for tag, members in _by_slice(side.judged.get(column.metric, {}).values()).items():
                if tag in slices:
                    scores = [one.score for one in members if one.score is not None]
                    value = estimate(scores, column.metric) if scores else None
                    change = moved[version].get((tag, at), "") if (tag, version - 1, at) in cells else ""
                    cells[tag, version, at] = Cell(len(members), len(scores), value, change)
    cases = {tag: [len(of_side.get(tag, ())) for of_side in counted] for tag in slices}
    return Dashboard(versions, columns, cases, cells, notes)


def _by_slice(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Return all answers, and those of each slice. Empty if there are none."""
    found: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        found[ALL].append(one)
        found[slice_name(one.slice_tag)].append(one)
    return found


def _list(side: Side) -> str:
    return one_line(", ".join(side.judged))


def _versions(specs: Sequence[str]) -> list[str]:
    """Return short names of the sides: the file names up to the first dot, with the system if given.

    If these are not unique or one is empty, the specs are returned as given.
    """
    named = [file_and_system(spec) for spec in specs]
    short = [path.name.partition(".")[0] + (f"#{system}" if system else "") for path, system in named]
    return short if len(set(short)) == len(short) and all(short) else [*specs]


def _moved(
    before: tuple[str, Side], after: tuple[str, Side], columns: Sequence[Column], notes: list[str]
) -> dict[tuple[str, int], str]:
    """Return, by slice and column, "better" or "worse" if the second version differs by more than noise. Adds notes."""
    versions = f"from {before[0]} to {after[0]}"
    try:
        first, second = paired([before[1], after[1]])
    except InputError as error:
        notes.append(f"{versions}: no change is shown: {error}")
        return {}
    if first.edited:
        notes.append(f"{versions}: edited cases ({len(first.edited)}) are left out of the change")
    found = {}
    other_judge = []
    for at, column in enumerate(columns):
        if column.metric not in first.judged.keys() & second.judged.keys():
            continue
        comparison = compare_sides(first, second, column.metric)
        if comparison.judges[0] != comparison.judges[1]:
            other_judge.append(column.head)
        for one in (comparison.overall, *comparison.slices):
            if one.change and significant(one.p if one.p_holm is None else one.p_holm):
                worse = (one.change.value > 0) == column.lower_is_better
                found[one.slice_tag, at] = "worse" if worse else "better"
    if other_judge:
        notes.append(f"{versions}: the judge or its prompt changed, which may have moved {', '.join(other_judge)}")
    return found


def print_dashboard(dashboard: Dashboard) -> None:
    """Print a table of all slices and versions, and the notes."""
    rows = []
    for tag, counts in dashboard.cases.items():
        for version, name in enumerate(dashboard.versions):
            cells = [_text(dashboard, tag, version, at) for at in range(len(dashboard.columns))]
            rows.append((tag, name, str(counts[version]), *cells))
    print_table(("slice", "version", "cases", *(column.head for column in dashboard.columns)), rows)
    shown = [f"{one.head} is {one.metric}" for one in dashboard.columns if one.head not in (one.metric, *MEASURED)]
    if shown:
        print_line(", ".join(shown))
    for note in dashboard.notes:
        print_line(note)


def _text(dashboard: Dashboard, tag: str, version: int, column: int) -> str:
    if missing := dashboard.missing(tag, version, column):
        return missing
    cell = dashboard.cells[tag, version, column]
    assert cell.value is not None
    part = f" ({cell.scored} of {cell.cases})" if cell.scored < cell.cases else ""
    return f"{cell.value.value:.{dashboard.columns[column].digits}f}{part} {cell.moved}".strip()
