"""Decides which column holds which field.

It goes by what the user says, by the layout of a known tool, or by the column's name. It never decides by the values of
a single row. But if all values contradict a name, as a count contradicts `contexts`, the column is not taken.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_zeval.cases.cells import as_ids, is_list, is_object, is_readable
from rag_zeval.cases.fields import DOUBLES, FIELDS, NEEDED, OBJECTS, OPTIONAL
from rag_zeval.cases.layouts import LAYOUTS
from rag_zeval.cases.missing import missing_columns
from rag_zeval.cases.names import IDS, NAMES, ONE_ID, VAGUE, field_of, plain_name, snake_name, written_name
from rag_zeval.cases.nested import REPLY_ROWS, in_messages, in_records, in_replies, one_of
from rag_zeval.cases.paths import at_path, option, pattern_of, quoted_list, roots_of, stem_of
from rag_zeval.cases.places import NO_TEXTS, Place, fields_inside
from rag_zeval.cases.survey import Survey
from rag_zeval.cases.systems import answers_of_systems
from rag_zeval.cases.unused import Unused
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import Row


@dataclass(frozen=True)
class Columns:
    """The columns of a file, and the field that each holds.

    layout: in words, how the columns were recognised.
    of: for each of our fields, the column or path that holds it.
    unused: the columns that hold none of our fields.
    overlooked: for some unused columns, what they seem to hold by their name, in words.
    ambiguous: for each optional field that several columns could hold, the options that choose one. It is not read.
    separator: a pattern of what stands between several contexts in one text.
    systems: the columns or paths that hold the answers of one system each, if the user chose several. The first is also
        in `of`.
    """

    layout: str
    of: Mapping[str, str]
    unused: tuple[str, ...]
    overlooked: Mapping[str, str]
    ambiguous: Mapping[str, str]
    separator: str | None = None
    systems: tuple[str, ...] = ()

    def value(self, row: Row, field: str) -> Any:
        """Return a row's value of a field, or None if it has none. Of several systems' answers it is the first."""
        return at_path(row, self.of[field]) if field in self.of else None

    def lines(self, count: Callable[[str], int], rows: int) -> Iterator[str]:
        """Yield a line for each field: which column holds it, and in how many of the rows `count` finds a value."""
        of = {"contexts" if name == "passage" else name: column for name, column in self.of.items()}
        for name in FIELDS:
            if name in of and name != "run":
                columns = self.systems if name == "answer" else ()
                kind = "columns" if columns or "*" in of[name] else "column"
                told = FIELDS["answers"] if columns else FIELDS[name]
                yield f"  {told}: {kind} {quoted_list(columns or [of[name]])}, in {count(name)} of {rows}"

    def unread_lines(self) -> Iterator[str]:
        """Yield a line for each field that is not read because several columns could hold it, and on unused columns."""
        for name, options in self.ambiguous.items():
            yield f"  {FIELDS[name]}: not read; {options}"
        if self.unused:
            yield f"  not used: {', '.join(map(repr, self.unused))}"

    def warnings(self) -> Iterator[str]:
        for name, meaning in self.overlooked.items():
            yield f"column '{name}' is not used; {meaning}"


def choose(survey: Survey, wanted: Wanted) -> Columns:
    """Return the columns to read, with the field that each holds.

    Raises InputError if two columns may hold the same field, and if required fields are missing. The message says
    which option to add.
    """
    return _Choice(survey, wanted).columns()


@dataclass
class _Choice:
    """The choice of columns in one file.

    taken: for each field, the column or path that holds it.
    refused: for each column that contradicts its name, the field that it names and why it is not taken.
    ambiguous: as in `Columns`.
    """

    survey: Survey
    wanted: Wanted
    taken: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    ambiguous: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.there, self.names = self.survey.there, self.wanted.names
        self.taken |= self.names
        self.roots = {root for _, path in self.wanted.paths for root in roots_of(path, self.there)}
        self.layout = next((one for one in LAYOUTS if one.fits(self.there, self.names)), None)
        self.written = {snake_name(name): name for name in self.there}
        other_meaning = self.layout.other_meaning.items() if self.layout else ()
        self.meant_otherwise = {self.written.get(column, column): meaning for column, meaning in other_meaning}

    def columns(self) -> Columns:
        self._take_by_layout()
        for one in (*NAMES, "answers"):
            if one in self.wanted.fields or one == "reference":
                self._take_by_name(one)
        self._look_into_objects()
        self._settle()
        inside = fields_inside(self.there, self.survey.sample)
        for one in self.taken.keys() & inside.keys() & {*NEEDED, *self.wanted.needs} - self.names.keys():
            if self._is_empty(self.taken[one]):
                del self.taken[one]
        flat = [name for name in self.refused if not self.survey.all_are(is_object, name)]  # objects hold other fields
        untrue = {root for name in flat for root in roots_of(name, self.there)}
        self._check_needs(untrue)
        used = {*self.roots, *(root for path in self.taken.values() for root in roots_of(path, self.there))}
        unused = [name for name in self.there if name not in used and name.partition(".")[0] not in self.roots]
        known = {*self.taken, *self.taken.values()}
        told = {name: why for name, (of, why) in self.refused.items() if not {of, name} & known}
        rest = Unused(self.survey, self.wanted, self.taken, unused, self.ambiguous, self.meant_otherwise)
        told |= rest.told([name for name in unused if name not in untrue], inside, self.layout is not None)
        layout = f"columns of {self.layout.name}" if self.layout else "columns known by their names"
        separator = self.layout.separator if self.layout and "contexts" not in self.names else None
        return Columns(layout, self.taken, tuple(unused), told, self.ambiguous, separator, self.wanted.systems)

    def _is_open(self, field: str) -> bool:
        """Whether no column is taken for a field, nor for one that takes its place."""
        others = ("answer",) if field == "answers" and "answer" in self.names else DOUBLES.get(field, ())
        return self.taken.keys().isdisjoint((field, *others))

    def _is_empty(self, path: str) -> bool:
        """Whether this is a column without any value."""
        return self.there.get(path, 1) == 0

    def _is_addition(self, column: str) -> bool:
        """Whether an input or instruction is no question of its own: the same in all rows, or missing in most."""
        is_one = self.survey.rows > 1 and len({*map(str, self.survey.values(column))}) == 1
        return plain_name(column) in ("input", "instruction") and (is_one or 2 * self.there[column] < self.survey.rows)

    def _can_hold(self, name: str, column: str) -> bool:
        """Whether the values of a column do not contradict the field that its name says."""
        is_beside = name == "context_ids" and "contexts" in self.taken
        contexts = self.survey.values(self.taken["contexts"]) if is_beside else ()
        found = Place(column, self.survey.values(column)).contradiction(name, contexts)
        if found and not (name in IDS and name in self.wanted.needs):
            used = f"to use it all the same, add {option(name, column)}"
            todo = "write the texts that were retrieved into them" if found == NO_TEXTS else used
            self.refused[column] = name, f"it holds {found}; {todo}"
        return column not in self.refused

    def _take_by_layout(self) -> None:
        for one, name in self.layout.columns.items() if self.layout else ():
            column = self.written.get(name)
            is_text = column not in self.survey.wrappers or one in OBJECTS
            is_free = one in self.wanted.fields and self._is_open(one) and column not in self.roots
            if column is not None and is_text and is_free and self._can_hold(one, column):
                self.taken[one] = column

    def _take_by_name(self, name: str) -> None:
        """Take the column that is named as a field. Raises InputError if several are, unless few commands read it."""
        if not self._is_open(name):
            return
        used = {*self.taken.values(), *self.roots, *self.meant_otherwise}
        used |= self.survey.wrappers if name not in OBJECTS else set()
        free = {column: count for column, count in self.there.items() if column not in used}
        if name == "contexts":
            free |= _patterns(free)
        found = [column for column in free if field_of(stem_of(column)) == name]
        if name == "truth" or (name == "contexts" and self.wanted.is_of_questions):
            ids = "gold_chunk_ids" if name == "truth" else "context_ids"
            found = [column for column in found if not self.survey.holds_ids(ids, column)]
        if name in IDS:
            found = self._columns_of_ids(name, free)
        found = [column for column in found if self._can_hold(name, column)]
        if name == "question":
            inputs = [column for column in found if plain_name(column) == "input"]
            found = [column for column in found if not self._is_addition(column)] or inputs
        alike = []
        if name == "answer" and len(found) > 1:
            alike = answers_of_systems({column: self.survey.values(column) for column in free})
        try:
            if one := one_of(found, name, free, alike):
                self.taken[name] = one
        except InputError as error:
            # ids of passages may say in which order they are
            if name not in OPTIONAL or name in self.wanted.needs or "passage" in self.taken:
                raise
            self.ambiguous[name] = str(error)

    def _columns_of_ids(self, field: str, free: Collection[str]) -> list[str]:
        """Return the free columns that hold the ids of a field: those named so, or else those that look like ids.

        Columns that cannot be read as gold ids do not count, unless the ids are needed.
        """
        named = [name for name in free if field_of(name) == field]
        if field == "context_ids" and self._is_open("contexts"):  # one id may be that of the gold document
            single = {one for one in named if self.survey.all_are(lambda value: not is_list(value), one)}
            named = [one for one in named if one not in single or plain_name(one) not in ONE_ID]
        found = named or [name for name in free if self.survey.holds_ids(field, name)]
        if field in self.wanted.needs or field in found or field == "context_ids":
            return found
        return [name for name in found if all(is_readable(as_ids, value) for value in self.survey.values(name))]

    def _look_into_objects(self) -> None:
        """Take the fields that are in the reply of a model API, in a record, or in a single chat message.

        They also replace a column without any value, unless the user chose it.
        """
        wrappers, sample = self.survey.wrappers, self.survey.sample
        empty = {name for name, path in self.taken.items() if name not in self.names and self._is_empty(path)}
        filled = {name: path for name, path in self.taken.items() if name not in empty}
        reply = in_replies(filled, wrappers, sample)
        if "id" in filled and "id" not in self.names and reply.get("answer") in REPLY_ROWS:
            del self.taken["id"], filled["id"]  # the reply's own, which no other run of the system has
        filled = reply | filled
        filled |= in_records(filled, sample)
        self.taken |= filled | in_messages(filled, wrappers, sample)

    def _settle(self) -> None:
        """Decide between fields that may mean the same: `reference` and the ground truth, `answer` and `answers`."""
        if "reference" in self.taken.keys() - self.names.keys():
            self._settle_reference()
        if self.wanted.is_of_questions:
            self.taken = {name: path for name, path in self.taken.items() if name in self.wanted.fields}
        for one in ("answers", "answer"):
            if {"answers", "answer"} <= self.taken.keys() and self._is_empty(self.taken[one]):
                del self.taken[one]
        if {"answers", "answer"} <= self.taken.keys():
            several, one = self.taken["answers"], self.taken["answer"]
            raise InputError(
                f"columns '{one}' and '{several}' could both hold answers to judge: if '{several}' are gold answers, "
                f"add {option('answer', one)} {option('truth', several)}; if they are those of systems, "
                f"{option('answers', several)}"
            )

    def _settle_reference(self) -> None:
        """Take the column `reference` for the ground truth if the file has contexts or no answers, or needs that.

        If the ground truth is known, `reference` is then ignored. Raises InputError if it is known by a vague name
        only, such as `expected`.
        """
        truth, is_of_questions = self.taken.get("truth"), self.wanted.is_of_questions
        is_vague = truth is not None and plain_name(truth) in VAGUE
        fields = ("contexts", "passage", *(["truth"] if is_vague else []))
        is_beside = any(not self._is_empty(self.taken[one]) for one in fields if one in self.taken)
        is_needed = truth is None and "truth" in self.wanted.needs
        if not (is_beside or is_needed or is_of_questions):
            return
        column = self.taken.pop("reference")
        if truth is None or (self._is_empty(truth) and "truth" not in self.names):
            self.taken["truth"] = column
        elif is_vague and not is_of_questions and "truth" not in self.names:
            raise InputError(
                f"columns '{truth}' and '{column}' could each hold the {FIELDS['truth']}: add {option('truth', truth)} "
                f"or {option('truth', column)}; if the answers are to be judged by '{column}', "
                f"{option('reference', column)}"
            )

    def _check_needs(self, untrue: Collection[str]) -> None:
        """Raise InputError if a field that the command needs is missing. untrue: columns that contradict their name."""
        needs = self.wanted.needs
        lacking = {name: any_of for name, any_of in needs.items() if self.taken.keys().isdisjoint(any_of)}
        if not lacking:
            return
        hidden = {*self.meant_otherwise, *untrue}
        known = [{name: value for name, value in row.items() if name not in hidden} for row in self.survey.sample]
        others = [name for name in ("contexts", "truth") if name in self.wanted.wished]
        needed = {one for any_of in lacking.values() for one in any_of}
        why = [f"column '{name}' is not used: {said}" for name, (of, said) in self.refused.items() if of in needed]
        missing = missing_columns(lacking, self.taken, self.there, known, others, self.wanted.is_joined)
        told = "; ".join([missing, *why])
        raise InputError(_trec_file(self.there) or told)


def _trec_file(there: Collection[str]) -> str | None:
    """Return what to do with a file of TREC, whose first line was read as the names of columns. None for others."""
    names = [*map(written_name, there)]
    cells = names if len(names) > 1 else " ".join(names).split()
    if len(cells) == 6 and cells[3].isdecimal() and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", cells[4]):
        return "looks like a run of TREC, not like a table: measure it by ir_measures QRELS RUN nDCG@10"
    has_header = len(cells) == 3 and field_of(cells[0]) == "id" and plain_name(cells[2]) in ("grade", "score")
    if has_header or (len(cells) == 4 and cells[3].isdecimal()):
        return "looks like qrels of TREC, not like a table: use it by rag-zeval retrieval ANSWERS --qrels QRELS"
    return None


def _patterns(there: Mapping[str, int]) -> dict[str, int]:
    """Return the patterns of numbered columns, such as `context_*` for `context_1` and `context_2`.

    Each pattern comes with the number of values in its fullest column.
    """
    patterns: dict[str, int] = {}
    for name, count in there.items():
        if (pattern := pattern_of(name)) != name:
            patterns[pattern] = max(count, patterns.get(pattern, 0))
    return patterns
