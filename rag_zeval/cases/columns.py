"""Decides which column holds which field.

It goes by what the user says, by the layout of a known tool, or by the column's name. It never decides by the values of
a single row. But if all values contradict a name, as a count contradicts `contexts`, the column is not taken.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rag_zeval.cases.cells import as_chunks, as_ids, as_text, is_nothing, is_numbers, label_in, unfolded
from rag_zeval.cases.id_columns import all_values, filled, id_columns, is_readable, looks_like
from rag_zeval.cases.missing import NEEDED, TEXTS, missing_columns
from rag_zeval.cases.name_words import is_about_truth, misspelt_field
from rag_zeval.cases.names import (
    FIELDS,
    IDS,
    LAYOUTS,
    NAMES,
    VAGUE,
    Layout,
    fields_of,
    plain_name,
    snake_name,
)
from rag_zeval.cases.nested import REPLY_ROWS, in_messages, in_records, in_replies, one_of
from rag_zeval.cases.paths import ABSENT, at_path, numbered, option, pattern_of, quoted_list, roots_of, stem_of
from rag_zeval.cases.places import Place, fields_inside
from rag_zeval.cases.systems import answers_of_systems, several_answers
from rag_zeval.cases.texts import is_verdict
from rag_zeval.errors import InputError, nearest
from rag_zeval.files import Row
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import one_line

LOOKED_AT = 100  # rows whose values are compared with what a column's name says
UNNAMED_TEXTS = "it holds texts but has no name; columns of contexts are named context_1, context_2, ..."
UNNAMED = ("(column ", "Unnamed: ")  # how we and pandas call a column without a name
TOLD = ("question", "answer", "answers", "contexts", "truth", "reference", "id", "system")  # fields to warn about
OBJECTS = ("contexts", "answers")  # fields whose value may be an object
OPTIONAL = ("slice_tag", "context_ids", "gold_chunk_ids", "latency_s", "cost_usd")  # fields that most commands ignore


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
        """Return a row's value of a field, or None if it has none. Answers of several systems are an object."""
        if field == "answer" and self.systems:
            answers = {name: at_path(row, name) for name in self.systems}
            return {name: value for name, value in answers.items() if value is not ABSENT and not is_nothing(value)}
        value = at_path(row, self.of[field]) if field in self.of else None
        return None if value is ABSENT else value

    def lines(self, count: Callable[[str], int], rows: int) -> Iterator[str]:
        """Yield a line for each field: which column holds it, and in how many of the rows `count` finds a value."""
        of = {"contexts" if name == "passage" else name: column for name, column in self.of.items()}
        for name in FIELDS:
            if name in of and name != "run":
                columns = self.systems if name == "answer" else ()
                kind = "columns" if columns or "*" in of[name] else "column"
                told = FIELDS["answers"] if columns else FIELDS[name]
                yield f"  {told}: {kind} {quoted_list(columns or [of[name]])}, in {count(name)} of {rows}"


def chosen_columns(
    names: Mapping[str, str | int | Sequence[str | int]], fields: Collection[str] = FIELDS
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the column that the user chose for each field, and those that hold the answers of one system each.

    fields: those that the command reads. Raises InputError for another field, for one column of two kinds of text, and
    for several columns of a field that is not the answer.
    """
    chosen: dict[str, str] = {}
    first: dict[str, str] = {}
    systems: tuple[str, ...] = ()
    for name, given in names.items():
        several = isinstance(given, (list, tuple))
        columns = [*map(str, given)] if isinstance(given, (list, tuple)) else [str(given)]  # a frame's may be numbers
        told = " ".join(option(name, column) for column in columns) or f"--map {name}=COLUMN"
        if name not in fields:
            fault = f"this command does not read the field '{name}'" if name in FIELDS else f"unknown field '{name}'"
            hint = (nearest(name, fields) if name not in FIELDS else "") or f"; choose from: {', '.join(fields)}"
            raise InputError(f"{told}: {fault}{hint}")
        if not 1 <= len({*columns}) == len(columns) <= len(LETTERS):
            raise InputError(f"{told}: names {len(columns)} columns, must name 1 to {len(LETTERS)}, each once")
        if len(columns) > 1 and name != "answer":
            raise InputError(f"{told}: a field has one column; only answer may have several, one for each system")
        for column in columns if name in TEXTS else ():
            if (other := first.setdefault(column, name)) != name:
                raise InputError(f"{option(other, column)} {option(name, column)}: one column cannot hold both")
        chosen[name] = columns[0]
        systems = tuple(columns) if several and name == "answer" else systems
    return chosen, systems


def choose(
    there: Mapping[str, int],
    wrappers: Collection[str],
    names: Mapping[str, str],
    sample: Sequence[Row],
    needs: Mapping[str, Collection[str]] = NEEDED,
    fields: Collection[str] = FIELDS,
    systems: tuple[str, ...] = (),
) -> Columns:
    """Return the columns to read, with the field that each holds.

    there: the columns of all rows, and how many rows have a value in each.
    wrappers: the columns that hold only objects, and so no text.
    names: the user's choice of columns, from our field to a column or path that exists.
    sample: some rows, from which a column for a missing field is suggested.
    needs: for each field to ask for if it is missing, the fields of which one must be there.
    fields: those to look for. Without `answer`, the file is a set of questions. A column `reference` is then the truth.
    systems: the columns or paths that the user chose for the answers of one system each.

    Raises InputError if two columns may hold the same field, and if required fields are missing. The message says
    which option to add.
    """
    return _Choice(there, wrappers, names, sample, needs, fields, systems).columns()


@dataclass
class _Choice:
    """The choice of columns in one file; see `choose` for its inputs.

    taken: for each field, the column or path that holds it.
    refused: for each column that contradicts its name, the field that it names and why it is not taken.
    """

    there: Mapping[str, int]
    wrappers: Collection[str]
    names: Mapping[str, str]
    sample: Sequence[Row]
    needs: Mapping[str, Collection[str]]
    fields: Collection[str]
    systems: tuple[str, ...]
    taken: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    ambiguous: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.taken |= self.names
        self.roots = {root for path in (*self.names.values(), *self.systems) for root in roots_of(path, self.there)}
        self.layout = next((one for one in LAYOUTS if _fits(one, self.there, self.names)), None)
        self.written = {snake_name(name): name for name in self.there}
        other_meaning = self.layout.other_meaning.items() if self.layout else ()
        self.meant_otherwise = {self.written.get(column, column): meaning for column, meaning in other_meaning}
        self.is_of_questions = "answer" not in self.fields
        self.wished = self.fields if "question" in self.needs else self.needs.keys()  # what to tell of

    def columns(self) -> Columns:
        self._take_by_layout()
        for one in (*NAMES, "answers"):
            if one in self.fields or one == "reference":
                self._take_by_name(one)
        _look_into_objects(self.taken, self.names, self.there, self.wrappers, self.sample)
        self._settle()
        inside = fields_inside(self.there, self.sample)
        for one in self.taken.keys() & inside.keys() & {*NEEDED, *self.needs} - self.names.keys():
            if not self.there.get(self.taken[one], 1):  # a column without any value
                del self.taken[one]
        self._check_needs()
        if {"answers", "answer"} <= self.taken.keys():  # the user chose one of them
            del self.taken["answers" if "answer" in self.names else "answer"]
        used = {*self.roots, *(root for path in self.taken.values() for root in roots_of(path, self.there))}
        unused = [name for name in self.there if name not in used and name.partition(".")[0] not in self.roots]
        layout = f"columns of {self.layout.name}" if self.layout else "columns known by their names"
        separator = self.layout.separator if self.layout and "contexts" not in self.names else None
        told = self._overlooked(unused, inside)
        return Columns(layout, self.taken, tuple(unused), told, self.ambiguous, separator, self.systems)

    def _can_hold(self, name: str, column: str) -> bool:
        """Whether the values of a column do not contradict the field that its name says."""
        found = _contradiction(name, column, self.sample, self.taken.get("contexts"))
        if found and not (name in IDS and name in self.needs):
            self.refused[column] = name, f"it holds {found}; to use it all the same, add {option(name, column)}"
        return column not in self.refused

    def _take_by_layout(self) -> None:
        for one, name in self.layout.columns.items() if self.layout else ():
            column = self.written.get(name)
            is_text = column not in self.wrappers or one in OBJECTS
            is_free = one in self.fields and one not in self.taken and column not in self.roots
            if column is not None and is_text and is_free and self._can_hold(one, column):
                self.taken[one] = column

    def _take_by_name(self, name: str) -> None:
        """Take the column that is named as a field. Raises InputError if several are, unless few commands read it."""
        if name in self.taken or (name == "contexts" and "passage" in self.taken):
            return
        used = {*self.taken.values(), *self.roots, *self.meant_otherwise}
        used |= {*self.wrappers} if name not in OBJECTS else set()
        free = {column: count for column, count in self.there.items() if column not in used}
        if name == "contexts":
            free = {column: count for column, count in free.items() if not self._are_numbers(column)}
            free |= _patterns(free)
        found = [column for column in free if name in fields_of(stem_of(column))]
        ids_instead = {"truth": "gold_chunk_ids", **({"contexts": "context_ids"} if self.is_of_questions else {})}
        if ids := ids_instead.get(name):
            found = [column for column in found if not looks_like(ids, column, self.sample)]
        if name in IDS:
            found = id_columns(name, free, self.taken, self.sample, is_needed=name in self.needs)
        found = [column for column in found if self._can_hold(name, column)]
        alike = answers_of_systems(_values(free, self.sample)) if name == "answer" and len(found) > 1 else []
        try:
            if one := one_of(found, name, free, alike):
                self.taken[name] = one
        except InputError as error:
            # ids of passages may say in which order they are
            if name not in OPTIONAL or name in self.needs or "passage" in self.taken:
                raise
            self.ambiguous[name] = str(error)

    def _are_numbers(self, column: str) -> bool:
        return all_values(is_numbers, column, self.sample)

    def _settle(self) -> None:
        """Decide between fields that may mean the same: `reference` and the ground truth, `answer` and `answers`."""
        if self.is_of_questions:
            reference = self.taken.get("reference")
            self.taken = {name: path for name, path in self.taken.items() if name in self.fields}
            truth = self.taken.get("truth")
            if reference and "truth" not in self.names and (truth is None or not self.there.get(truth, 1)):
                self.taken["truth"] = reference
        elif "truth" in {*self.needs} - {*self.taken} and "reference" in {*self.taken} - {*self.names}:
            self.taken["truth"] = self.taken.pop("reference")  # the user asked for it
        else:
            _check_reference(self.taken, self.names, self.there)
        for one, other in (("answers", "answer"), ("answer", "answers")):
            if {one, other} <= self.taken.keys() and one not in self.names and not self.there.get(self.taken[one]):
                del self.taken[one]  # a column without any value
        _check_answers(self.taken, self.names)

    def _check_needs(self) -> None:
        """Raise InputError if a field that the command needs is missing."""
        lacking = [name for name, any_of in self.needs.items() if self.taken.keys().isdisjoint(any_of)]
        if not lacking:
            return
        hidden = {*self.meant_otherwise, *self._untrue()}
        known = [{name: value for name, value in row.items() if name not in hidden} for row in self.sample]
        others = [name for name in ("contexts", "truth") if name in self.wished]
        needed = {one for name in lacking for one in self.needs[name]}
        why = [f"column '{name}' is not used: {said}" for name, (of, said) in self.refused.items() if of in needed]
        told = "; ".join([missing_columns(lacking, self.taken, self.there, known, others), *why])
        raise InputError(_trec_file(self.there) or told)

    def _untrue(self) -> set[str]:
        """Return the columns that contradict their names."""
        return {root for name in self.refused for root in roots_of(name, self.there)}

    def _overlooked(self, unused: Sequence[str], inside: Mapping[str, str]) -> dict[str, str]:
        """Return for some unused columns what they seem to hold, in words.

        inside: for each field, a place inside an object that has its name.
        """
        known, untrue = {*self.taken, *self.taken.values()}, self._untrue()
        told = {name: why for name, (of, why) in self.refused.items() if not {of, name} & known}
        free = [name for name in unused if name not in untrue]
        unclear = [name for name in free if not self.is_of_questions and name not in self.meant_otherwise]
        of_systems = _answers_beside(self.taken, self.systems, unclear, self.sample)
        if others := [name for name in of_systems if name in unused]:
            told[others[0]] = f"if it holds another system's {FIELDS['answer']}, add {several_answers(of_systems)}"
        for name in free:
            if self.there[name] and name not in of_systems and not self._are_numbers(name):
                told |= self._told_of(name, unused)
            elif not (self.there[name] or self.layout) and "answer" in fields_of(name) and "answer" in self.taken:
                told[name] = f"it is empty in every row, so '{self.taken['answer']}' is judged"
        for one in ("contexts", "truth"):
            is_there = self.taken.keys() & ({one, "passage"} if one == "contexts" else {one})
            if one in inside and one in self.wished and not is_there:
                told.setdefault(inside[one], f"if it holds the {FIELDS[one]}, add {option(one, inside[one])}")
        return told

    def _told_of(self, name: str, unused: Sequence[str]) -> dict[str, str]:
        """Return what an unused column seems to hold, by its name or by that of its numbered group; {} if nothing."""
        if "gold_chunk_ids" in fields_of(name) or looks_like("gold_chunk_ids", name, self.sample):
            is_wanted = "gold_chunk_ids" in {*self.fields} - {*self.taken, *self.ambiguous}
            meaning = f"if it holds the {FIELDS['gold_chunk_ids']}, add {option('gold_chunk_ids', name)}"
            return {name: meaning} if is_wanted and name not in self.wrappers else {}
        if name in self.meant_otherwise:  # without a field for contexts, it may only seem to hold these
            field, told = "", f"it is {self.meant_otherwise[name]}" if "contexts" in self.fields else ""
        elif name.startswith(UNNAMED):
            has_texts = Place(name, filled(name, self.sample)).has_sentences
            field, told = "", UNNAMED_TEXTS if has_texts else ""
        else:
            field = self._seeming(name)
            told = f"if it holds the {FIELDS[field]}, add {option(field, name)}" if field else ""
        if not told or _is_copy(name, self.taken.values(), self.sample):
            return {}
        if field != "contexts":
            return {name: told}
        if _contradiction("contexts", name, self.sample, None):
            return {}
        group = pattern_of(name)
        if len(numbered(group, unused)) < 2:
            return {name: told}
        return {group: told.replace(option("contexts", name), option("contexts", group))}  # such as context_*

    def _seeming(self, name: str) -> str:
        """Return which of the fields to warn about a column seems to hold, "" if its name does not say so."""
        place = Place(name, filled(name, self.sample))
        plain, snake = plain_name(name), snake_name(name)
        ends_so = plain.endswith(("_answer", "_response"))  # of a system, such as gpt4_answer
        begins_so = snake.startswith(("answer_", "response_"))  # such as answer_old, but not answer_relevancy
        told = [one for one in TOLD if one in self.wished and (one in OBJECTS or name not in self.wrappers)]
        if plain_name(place.last) == "answer" and "truth" not in self.taken:
            named = ["truth"]
        elif known := fields_of(name) or fields_of(stem_of(pattern_of(name))):
            named = known
        elif ends_so or (begins_so and not place.is_aside("truth") and place.has_sentences):
            is_gold = snake.endswith("_answers") or is_about_truth(name)  # such as possible_answers, human_answer
            named = ["truth" if is_gold else "answer"]
        elif like := misspelt_field(name):
            named = [like]
        else:
            named = [one for one in told if one not in self.taken and place.says(one)]
        return next((one for one in told if one in named), "")


def _answers_beside(
    taken: Mapping[str, str], systems: Sequence[str], free: Sequence[str], sample: Sequence[Row]
) -> list[str]:
    """Return the columns that seem to hold the answers of several systems: free ones, and those of the answer."""
    judged = systems or [taken[field] for field in ("answer",) if field in taken]
    if "truth" not in taken:
        judged = [name for name in judged if plain_name(name) != "answer"]  # which may hold gold answers
    return answers_of_systems(_values([*judged, *free], sample), judged)


def _values(names: Iterable[str], sample: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [at_path(row, name) for row in sample] for name in names}


def _trec_file(there: Collection[str]) -> str | None:
    """Return what to do with a file of TREC, whose first line was read as the names of columns. None for others."""
    names = [re.sub(r" ?\(column [0-9]+\)\Z", "", name) for name in there]
    cells = names if len(names) > 1 else " ".join(names).split()
    if len(cells) == 6 and cells[3].isdecimal() and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", cells[4]):
        return "looks like a run of TREC, not like a table: measure it by ir_measures QRELS RUN nDCG@10"
    has_header = len(cells) == 3 and fields_of(cells[0]) == ["id"] and plain_name(cells[2]) in ("grade", "score")
    if has_header or (len(cells) == 4 and cells[3].isdecimal()):
        return "looks like qrels of TREC, not like a table: use it by rag-zeval retrieval ANSWERS --qrels QRELS"
    return None


def _look_into_objects(
    taken: dict[str, str],
    names: Mapping[str, str],
    there: Mapping[str, int],
    wrappers: Collection[str],
    sample: Sequence[Row],
) -> None:
    """Add to `taken` the fields that are in the reply of a model API, in a record, or in a single chat message.

    They also replace a column without any value, unless the user chose it.
    """
    filled = {field: path for field, path in taken.items() if field in names or there.get(path, 1)}
    reply = in_replies(filled, wrappers, sample)
    if "id" in filled and "id" not in names and reply.get("answer") in REPLY_ROWS:
        del taken["id"], filled["id"]  # the reply's own, which no other run of the system has
    filled = reply | filled
    filled |= in_records(filled, sample)
    taken |= filled | in_messages(filled, wrappers, sample)


def _contradiction(field: str, column: str, sample: Sequence[Row], contexts: str | None) -> str | None:
    """Return in words what all values of a column are, if the field holds nothing of that kind, or else None.

    contexts: the column or path of the retrieved contexts, if it is known.
    """
    values = [value for row in sample if not is_nothing(value := at_path(row, column)) and value is not ABSENT]
    if field == "contexts" and (label := label_in(values)):
        return f"numbers, ids, links or names of files, such as '{one_line(label)}'"
    if field == "context_ids" != column and (joined := [value for value in values if not is_readable(value)]):
        return f"several ids in one text, such as '{one_line(str(joined[0]))}'"
    with suppress(InputError):
        if field in ("answer", "truth") and values:
            texts = [as_text(value) or "" for value in values]
            return f"verdicts or labels, such as '{texts[0]}'" if all(map(is_verdict, texts)) else None
        if field == "context_ids" and contexts and values:
            is_one = all(not isinstance(unfolded(value), list) and len(as_ids(value)) == 1 for value in values)
            passed = [found for row in sample if (found := at_path(row, contexts)) is not ABSENT]
            if is_one and any(len(as_chunks(value)[0]) > 1 for value in passed):
                return f"one id a row, such as '{values[0]}', for several contexts"
    return None


def _is_copy(name: str, columns: Collection[str], sample: Sequence[Row]) -> bool:
    """Whether a column has the values of one of these columns in all rows, as the files of ragas may have."""

    def value(row: Row, path: str) -> Any:
        found = at_path(row, path)
        return None if found is ABSENT or is_nothing(found) else unfolded(found)

    own = [value(row, name) for row in sample]
    return any(one is not None for one in own) and any(
        all(value(row, column) == one for row, one in zip(sample, own, strict=True)) for column in columns
    )


def _patterns(there: Mapping[str, int]) -> dict[str, int]:
    """Return the patterns of numbered columns, such as `context_*` for `context_1` and `context_2`.

    Each pattern comes with the number of values in its fullest column.
    """
    patterns: dict[str, int] = {}
    for name, count in there.items():
        if (pattern := pattern_of(name)) != name:
            patterns[pattern] = max(count, patterns.get(pattern, 0))
    return patterns


def _fits(layout: Layout, there: Collection[str], names: Mapping[str, str]) -> bool:
    """Whether a file has the columns of a layout, and the user does not say that one of them holds another field."""
    chosen = {field: snake_name(path) for field, path in names.items()}
    otherwise = (path in layout.known_by and layout.columns.get(field) != path for field, path in chosen.items())
    return {snake_name(name) for name in there}.issuperset(layout.known_by) and not any(otherwise)


def _check_reference(taken: dict[str, str], names: Mapping[str, str], there: Mapping[str, int]) -> None:
    """Take the column `reference` for the ground truth if the file also has contexts, unless the user has chosen it.

    If the ground truth is known, `reference` is ignored. Raises InputError if it is known by a vague name only, such as
    `expected`.
    """
    truth = taken.get("truth")
    is_vague = truth is not None and plain_name(truth) in VAGUE
    fields = ("contexts", "passage", *(["truth"] if is_vague else []))
    beside = [taken[field] for field in fields if field in taken]
    if "reference" not in taken or "reference" in names or not any(there.get(name, 1) for name in beside):
        return
    column = taken.pop("reference")
    if truth is None:
        taken["truth"] = column
    elif is_vague and "truth" not in names:
        raise InputError(
            f"columns '{truth}' and '{column}' could each hold the {FIELDS['truth']}: add {option('truth', truth)} or "
            f"{option('truth', column)}; if the answers are to be judged by '{column}', {option('reference', column)}"
        )


def _check_answers(taken: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Raise InputError if `answers` may be answers of systems or gold answers, and the user has not said which."""
    if "answers" in taken and "answer" in taken and not {"answer", "answers"} & names.keys():
        several, one = taken["answers"], taken["answer"]
        raise InputError(
            f"columns '{one}' and '{several}' could both hold answers to judge: if '{several}' are gold answers, add "
            f"{option('answer', one)} {option('truth', several)}; if they are those of systems, "
            f"{option('answers', several)}"
        )
