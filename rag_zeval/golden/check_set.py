"""Checks a golden set: the questions, with gold chunks and ground truth, that every version is judged by.

The rules on size, slices and origin follow llmbestpractices.com/ai-agents/rag-eval. They ask for 50 to 200 questions in
version control, with gold chunks, ground truth and slice, half of them from production. LEAST_IN_SLICE and ALIKE are
our own choices.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.cases.case import NO_SLICE, by_slice, golden_hashes
from rag_zeval.cases.cells import as_id, as_text, as_truth
from rag_zeval.cases.question_files import QuestionFile, read_question_file
from rag_zeval.cases.reading import question_id
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.golden.golden_rows import is_unanswerable, list_of_ids
from rag_zeval.judge.words import words
from rag_zeval.text import counted

LEAST, MOST = 50, 200  # questions
LEAST_IN_SLICE = 5  # the 95% Wilson interval begins at 0.57 for 5 right of 5, and at 0.51 or less for fewer
ALIKE = 0.85  # a Jaccard index that one added word reaches from 6 words on, and one changed word from 13 on
PRODUCTION = "production"
ENDS = " ?!.。"  # characters at the end of a question that do not make it different
READ = ("question", "truth", "id", "slice_tag", "gold_chunk_ids")  # and the column "origin"
TEXTS = ("question", "truth", "slice_tag")  # fields that every row should have, as well as gold chunks


@dataclass(frozen=True)
class Finding:
    """Something to fix in a set. place: that of the row, or of the one at which a rule for the whole set fails."""

    place: str
    field: str
    text: str


GoldenRows = Mapping[str, Row]  # by place; fields may be missing


def read_set(path: Path, names: Mapping[str, str | Sequence[str]] | None = None) -> QuestionFile:
    """Read a golden set. names: the columns that the user chose. See `read_question_file`."""
    return read_question_file(path, READ, {"question": {"question"}}, names, kept=("origin",))


def findings(read: QuestionFile) -> list[Finding]:
    """Return everything to fix in a set, in the order of its rows.

    Each question is compared with each other one: 200 take a moment, 4,000 some seconds.
    Example: `[one.text for one in findings(read_set(Path("golden.csv")))]`.
    """
    rows = read.readable
    broken = [Finding(place, "row", str(why)) for place, why in read.rows.items() if isinstance(why, InputError)]
    of_rows = [*broken, *_in_one(_missing(rows), read), *_repeated_ids(rows), *_repeated(rows)]
    order = {place: at for at, place in enumerate(read.rows)}
    of_set = [*_size(rows, [*read.rows]), *_small_slices(rows), *_origins(rows)]
    return sorted([*of_rows, *of_set], key=lambda finding: order.get(finding.place, -1))


def by_tag(rows: GoldenRows) -> list[tuple[str, list[str]]]:
    """Return the places of all rows, then those of each slice, sorted by name of the slice."""
    return by_slice(rows, lambda place: _text(rows[place], "slice_tag"))


def hashes(row: Row) -> dict[str, str]:
    """Hash a row's question, ground truth and gold chunks as result files do. Missing or invalid ones have no hash."""
    question, truth = _text(row, "question"), _text(row, "truth")
    try:
        return golden_hashes(question, truth, list_of_ids(row.get("gold_chunk_ids")))
    except InputError:  # `findings` reports it
        return golden_hashes(question, truth, ())


@dataclass(frozen=True)
class Changes:
    """What changed since an earlier version of a set: numbers of unchanged, new and removed rows, and the edits.

    edits: a finding for each field that differs.
    """

    same: int
    new: int
    gone: int
    edits: Sequence[Finding]


def changes(rows: GoldenRows, old: GoldenRows) -> Changes:
    """Compare a set with its older version. Rows are matched by their id, or by their question if they have none."""
    before, now = ({_key(row): place for place, row in one.items()} for one in (old, rows))
    kept = [key for key in now if key in before]
    edits = []
    for place, at in ((now[key], before[key]) for key in kept):
        ours, theirs = ({**hashes(row), "slice_tag": _text(row, "slice_tag")} for row in (rows[place], old[at]))
        text = f"edited since {at}: restore that row, and give the new one an id of its own"
        edits += [Finding(place, field, text) for field in {**theirs, **ours} if theirs.get(field) != ours.get(field)]
    same = len(kept) - len({edit.place for edit in edits})
    return Changes(same, len(now) - len(kept), len(before) - len(kept), edits)


def _key(row: Row) -> str:
    """Return the id of a row, or the one that `evaluate` derives from its question."""
    return _id(row) or question_id(_text(row, "question") or "")


def _id(row: Row) -> str | None:
    given = row.get("id")
    return as_id(given) if isinstance(given, str | int | float) else None


def from_production(row: Row) -> bool:
    """Whether a row says that its question was asked in production."""
    return row.get("origin") == PRODUCTION


def _text(row: Row, field: str) -> str | None:
    """Return the field as `evaluate` reads it, None if it is empty or no text."""
    read = {"question": as_text, "slice_tag": as_id}.get(field, as_truth)
    with suppress(InputError):
        return read(row.get(field))
    return None


def _missing(rows: GoldenRows) -> Iterator[Finding]:
    for place, row in rows.items():
        unanswerable = is_unanswerable(row)
        for field in TEXTS:
            if not (unanswerable and field == "truth") and _text(row, field) is None:
                yield Finding(place, field, "must be a text that is not empty")
        try:
            if not list_of_ids(row.get("gold_chunk_ids")) and not unanswerable:
                yield Finding(place, "gold_chunk_ids", "is empty")
        except InputError as error:
            yield Finding(place, "gold_chunk_ids", str(error))
        if not isinstance(row.get("origin"), str | None):
            yield Finding(place, "origin", "must be a text")


def _in_one(found: Iterable[Finding], read: QuestionFile) -> Iterator[Finding]:
    """Yield the findings on rows, but only one for a field that no row has, or that is wrong in every row."""
    fields: dict[str, list[Finding]] = {}
    for finding in found:
        fields.setdefault(finding.field, []).append(finding)
    for field, of in fields.items():
        if field in READ and field not in read.columns.of:
            yield Finding(read.name, field, f"no column found; if one holds it, add --map {field}=COLUMN")
        elif 1 < len(of) == len(read.readable):
            yield Finding(read.name, field, f"in all {len(of)} rows: {of[0].text}")
        else:
            yield from of


def _repeated_ids(rows: GoldenRows) -> Iterator[Finding]:
    """Find ids that an earlier row has. `evaluate` refuses a file with such rows."""
    firsts: dict[str, str] = {}
    for place, row in rows.items():
        if (id_ := _id(row)) is not None and (first := firsts.setdefault(id_, place)) != place:
            yield Finding(place, "id", f"duplicate of the id in {first}")


def _repeated(rows: GoldenRows) -> Iterator[Finding]:
    """Find duplicates and near-duplicates of earlier questions.

    Duplicates differ only in case, spacing, Unicode form (NFKC) and the characters of ENDS at their end.
    Near-duplicates hold the same numbers, and their sets of words and marks have a Jaccard index (shared / all) of at
    least ALIKE. A near-duplicate is reported with the most similar earlier question only.
    """
    firsts: dict[tuple[str, ...], str] = {}
    by_numbers: dict[frozenset[str], dict[str, frozenset[str]]] = {}
    for place, row in rows.items():
        if (question := _text(row, "question")) is None:
            continue
        spoken = tuple(words(unicodedata.normalize("NFKC", question).casefold().rstrip(ENDS))) or (question,)
        if (first := firsts.setdefault(spoken, place)) != place:
            yield Finding(place, "question", f"duplicate of the question in {first}")
            continue
        held = frozenset(spoken)
        others = by_numbers.setdefault(frozenset(word for word in held if re.search(r"\d", word)), {})
        shared = ((at, len(other), len(held & other)) for at, other in others.items())
        jaccard = ((both / (len(held) + size - both), at) for at, size, both in shared)
        alike, first = max(jaccard, default=(0.0, ""))
        if alike >= ALIKE:
            text = f"near-duplicate of the question in {first}: Jaccard index of their words {alike:.2f}"
            yield Finding(place, "question", text)
        others[place] = held


def _size(rows: GoldenRows, places: Sequence[str]) -> Iterator[Finding]:
    text = f"the set has {counted(len(rows), 'question')}, should have {LEAST} to {MOST}"
    if len(rows) < LEAST:
        yield Finding(places[-1], "set", text)
    if len(rows) > MOST:
        yield Finding(list(rows)[MOST], "set", f"{text}: this row and all after it are too many")


def _small_slices(rows: GoldenRows) -> Iterator[Finding]:
    for name, places in by_tag(rows)[1:]:
        if name != NO_SLICE and len(places) < LEAST_IN_SLICE:
            text = f"slice '{name}': {len(places)} of at least {LEAST_IN_SLICE} questions"
            yield Finding(places[0], "slice_tag", text)


def _origins(rows: GoldenRows) -> Iterator[Finding]:
    others = [place for place, row in rows.items() if not from_production(row)]
    if 2 * len(others) > len(rows):
        untold = sum(row.get("origin") is None for row in rows.values())
        text = f"{len(rows) - len(others)} of {len(rows)} questions are from {PRODUCTION}, should be at least half"
        yield Finding(others[0], "origin", f"{text} ({untold} say nothing in column 'origin')" if untold else text)
