"""Reads the cases of people's files and Python objects."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rag_zeval.cases.answers import answers_of
from rag_zeval.cases.case import CONTEXTS, Case, named_sources
from rag_zeval.cases.case_file import CaseFile
from rag_zeval.cases.cells import (
    as_chunks,
    as_id,
    as_ids,
    as_text,
    as_texts,
    as_truth,
    has_several_truths,
    is_empty_list,
    is_nothing,
)
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.fields import NEEDED
from rag_zeval.cases.joining import join as joined_rows
from rag_zeval.cases.objects import read_objects
from rag_zeval.cases.paths import one_option, option
from rag_zeval.cases.row_files import PlacedRow, read_table, readable_rows
from rag_zeval.cases.source import BadRows, Source
from rag_zeval.cases.text_files import doubted_encoding
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import MOST, Row, locate
from rag_zeval.judge.needs import BETWEEN
from rag_zeval.text import text_id


def read_cases(
    source: Any,
    names: Mapping[str, str | int | Sequence[str | int]] | None = None,
    *,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    system: str | None = None,
    judged: bool = True,
    against: str | None = None,
    join: Any = None,
) -> CaseFile:
    """Read the cases of a file, a frame, a data set, a table, or a list of dicts or objects, in their order.

    Columns are recognised by their names. A case without an id gets one derived from its question, so that the cases of
    several files can be paired by question.

        print(read_cases("answers.csv"))  # how the file is read, before anything is judged

    Args:
        source: A path, a DataFrame, a `datasets.Dataset`, an Arrow table, or a list. The answers of several systems are
            in one source, with a column `system` that names them.
        names: The columns that you choose: for a field, its column or a path into objects. They take precedence over
            the recognised names. Example: `{"question": "q", "answer": "out.text"}`. A list of columns for "answer"
            makes a system of each, named by its column.
        encoding: The encoding of a text file. Default: UTF-8, or UTF-16 or UTF-32 with a byte order mark.
        skip_bad_rows: Skip rows that cannot be read, and list them in `left_out`.
        system: The system of answers that name none. Default: the file's name without its suffix, or "answer" for a
            Python object.
        judged: Whether the source must have a reference, retrieved contexts or ground truth.
        against: As in `evaluate`. The source must then have these texts.
        join: Another file or object, such as that of the questions, or a tuple of several. Its columns are added to the
            rows with the same id, or else with the same question.

    Raises:
        InputError: If a column is missing or ambiguous, or if rows cannot be read or joined. It names file, line and
            column of the first 20 such rows.
    """
    needs = {field: NEEDED[field] for field in NEEDED if field != "contexts" or (judged and against is None)}
    needs |= {kind: {kind, "passage"} if kind == CONTEXTS else {kind} for kind in named_sources(against)}
    files = join if isinstance(join, tuple) else () if join is None else (join,)
    wanted = replace(Wanted.of(names or {}, needs), is_joined=bool(files))
    if isinstance(source, (str, Path)):
        path = Path(source)
        name, default = str(path), path.name.removesuffix(".gz").rpartition(".")[0] or path.name
        rows: Callable[[], Iterator[PlacedRow]] = partial(read_table, path, encoding, wanted.names)
    else:
        name, default = type(source).__name__, "answer"
        with locate(name):
            rows = list(read_objects(source, wanted.names)).__iter__
    others = []
    for other in files:
        added, rows = joined_rows(name, rows, other, encoding, wanted.names)
        others.append(added)
    found = _Reader(Source(name, rows, wanted), system or default).read(skip_bad_rows)
    doubted = doubted_encoding(Path(source), encoding) if encoding and isinstance(source, (str, Path)) else None
    return replace(found, encoding=doubted, joined=tuple(others))


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file, each with its place. Raises InputError at the first that cannot be read."""
    return readable_rows(read_table(path))


def question_id(question: str) -> str:
    """Return the id of a case whose file gives none. Equal questions have equal ids."""
    return text_id("q", question)


class _Reader:
    """Reads the cases of one source. system: that of answers that name none."""

    def __init__(self, source: Source, system: str):
        self.source, self.columns, self.system = source, source.columns, system
        self.ids = _Ids(source.columns)
        self.several_truths = 0

    def read(self, skip_bad_rows: bool) -> CaseFile:
        cases, bad = [], []
        for place, row in self.source.rows():
            try:
                with locate(place):
                    if isinstance(row, InputError):
                        raise row
                    cases.append(self._case(row, place))
            except InputError as error:
                bad.append(str(error))
        if bad and not (skip_bad_rows and cases):
            if self.ids.duplicate and not self.ids.asked_otherwise and (naming := self.source.naming("id")):
                is_one = f"'{naming[0]}'" if len(naming) == 1 else "one of the columns"
                told = f"if {is_one} names the system of each row, add {one_option('system', naming)}"
                raise InputError(f"{self.ids.duplicate}: {told}")
            others = bool(cases) and self.ids.duplicate is None
            raise BadRows(bad, self.source.survey.rows, others)
        used = dict.fromkeys([*self.columns.of.values(), *self.columns.systems])
        found = CaseFile(
            self.source.name,
            cases,
            self.columns,
            unnamed=self.ids.unnamed,
            left_out=tuple(bad),
            system=self.system if any(self.system in case.answers for case in cases) else None,
            encoded=tuple(name for name in used if name in self.source.survey.encoded),
            several_truths=self.several_truths,
        )
        return replace(found, naming=self.source.naming("question")) if found.several else found

    def _case(self, row: Row, place: str) -> Case:
        columns = self.columns

        def read(name: str, convert: Callable[[Any], Any]) -> Any:
            if name not in columns.of:
                return convert(None)
            with locate(f"column '{columns.of[name]}'"):
                return convert(columns.value(row, name))

        def read_amount(name: str) -> Any:
            return read(name, partial(_amount, has_comma=columns.of.get(name) in self.source.survey.commas))

        question = read("question", as_text)
        if question is None:
            raise InputError(_no_question(row, columns))
        chosen, system = self.source.wanted.names, read("system", as_id)
        answers, unanswered = answers_of(row, columns, chosen, system, self.system)
        passed = "passage" if "passage" in columns.of else "contexts"
        as_contexts = partial(as_chunks, column=columns.of.get(passed, ""), separator=columns.separator)
        contexts, ids = read(passed, as_contexts)
        case = Case(
            "",
            question,
            answers,
            contexts,
            read("truth", as_truth),
            read("reference", lambda value: BETWEEN.join(as_texts(value)) or None),
            read("slice_tag", as_id),
            read("context_ids", as_ids) or ids,
            read("gold_chunk_ids", as_ids),
            read_amount("latency_s"),
            unanswered,
            read_amount("cost_usd"),
            not contexts and read("context_ids", is_empty_list),
        )
        self.several_truths += has_several_truths(columns.value(row, "truth"))
        return replace(case, id=self.ids.of(read("id", as_id), case, row, place))


class _Ids:
    """Gives the cases of one source their ids.

    unnamed: number of cases without one in the source. duplicate: in words, the first duplicate of an id.
    asked_otherwise: whether an id has several questions.
    """

    def __init__(self, columns: Columns):
        self.unnamed = 0
        self.duplicate: str | None = None
        self.asked_otherwise = False
        self._columns = columns
        self._first: dict[tuple[str, ...], tuple[str, Case]] = {}  # by id and systems
        self._answered: dict[tuple[Any, ...], tuple[str, Case]] = {}  # by id and answers
        self._repeated: Counter[tuple[str, ...]] = Counter()

    def of(self, given: str | None, case: Case, row: Row, place: str) -> str:
        """Return the given id, or one derived from the question.

        Repeated questions and runs get a number from the second on. Raises InputError for a duplicate id, and if rows
        look like the passages of one answer.
        """
        columns = self._columns
        id_ = given or question_id(case.question)
        key = (id_, *case.answers)
        first, other = self._first.setdefault(key, (place, case))
        self.unnamed += given is None
        answered, same = self._answered.setdefault((id_, *case.answers.items()), (place, case))
        if isinstance(columns.value(row, "contexts"), str) and same.contexts != case.contexts:
            raise InputError(
                f"has the same question and answer as {answered} but another context: if each row is one "
                f"retrieved passage, add {option('passage', columns.of['contexts'])}"
            )
        if given is not None and first != place and "run" not in columns.of:
            is_same = other.question == case.question
            told = f"duplicate id '{id_}', also in {first}{'' if is_same else ', with another question'}"
            self.duplicate = self.duplicate or f"{place}: {told}"
            self.asked_otherwise |= not is_same
            way_out = f", or remove column '{columns.of['id']}'"
            if not is_same:
                way_out = (
                    f"; if column '{columns.of['id']}' holds other ids, such as those of documents, remove or rename it"
                )
            raise InputError(f"{told}: give each row its own id{way_out}")
        self._repeated[key] += 1
        return id_ if self._repeated[key] == 1 else f"{id_}#{self._repeated[key]}"


def _no_question(row: Row, columns: Columns) -> str:
    """Return what to do about a row without a question. If it has only a context, it may continue the row above."""
    asked, contexts = columns.of["question"], columns.of.get("contexts", "")
    if contexts and is_nothing(columns.value(row, "answer")) and not is_nothing(columns.value(row, "contexts")):
        more = f"if '{contexts}' is one more passage of the row above, repeat its '{asked}' here, and add"
        return f"column '{asked}' is empty: {more} {option('passage', contexts)}; else fill it in, or remove the row"
    return f"column '{asked}' is empty: fill it in, or remove the row"


def _amount(value: Any, has_comma: bool) -> float | None:
    """Return seconds or dollars, or None. Raises InputError unless the value is a number of 0 or more.

    has_comma: whether a comma in it is a decimal comma.
    """
    if is_nothing(value):
        return None
    try:
        amount = float(value.replace(",", ".") if has_comma and isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if not 0 <= amount < MOST:
        point = ", with a point before its fraction" if "," in str(value) else ""
        raise InputError(f"must be a number, 0 or more{point}, found {value!r}")
    return amount
