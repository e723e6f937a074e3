"""Reads cases from people's files and Python objects, and reports how each source was read."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rag_zeval.cases.case import CONTEXTS, Case, named_sources, never_match
from rag_zeval.cases.cells import (
    are_labels,
    as_chunks,
    as_id,
    as_ids,
    as_text,
    as_texts,
    as_truth,
    as_truths,
    is_empty_list,
    is_nothing,
    unfolded,
    unquoted,
)
from rag_zeval.cases.columns import Columns, choose
from rag_zeval.cases.doubts import SEVERAL_CONTEXTS, doubts, several_truths
from rag_zeval.cases.joining import Joined, join
from rag_zeval.cases.missing import NEEDED
from rag_zeval.cases.names import FIELDS, SPREADSHEET_ERRORS
from rag_zeval.cases.objects import read_objects
from rag_zeval.cases.paths import ABSENT, at_path, one_option, option
from rag_zeval.cases.row_files import PlacedRow, doubted_encoding, read_table
from rag_zeval.cases.survey import UNNAMED, Survey
from rag_zeval.cases.systems import naming_systems
from rag_zeval.cases.texts import is_label
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError
from rag_zeval.files import MOST, Row, locate
from rag_zeval.judge.needs import BETWEEN
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import counted, one_line, text_id

LONG_CONTEXT = 30  # characters of a context that no question contains by chance
SHORTEST_ERROR = 10  # characters of an error that no answer contains by chance
MOST_TOLD = 20  # bad rows of a file that are listed one by one


@dataclass(frozen=True)
class CaseFile:
    """The cases of one source, and how they were read.

    unnamed: number of cases without an id in the file. Their id is derived from the question.
    left_out: for each skipped row, its place and the reason.
    system: the name that answers without a system got, if there are any.
    repeated: number of cases with the same texts as an earlier one.
    encoded: the columns in which every text was a JSON string, read without its quotation marks.
    several_truths: number of cases with several ground truths in the file, of which the first is used.
    several: number of questions that one system seems to answer in several ways.
    naming: the unused columns that then may name the system of each row.
    encoding: the encoding that the file seems to have instead of the one that was given.
    joined: the other file whose columns were added to the rows.
    """

    name: str
    cases: list[Case]
    columns: Columns
    unnamed: int = 0
    left_out: tuple[str, ...] = ()
    system: str | None = None
    repeated: int = 0
    encoded: tuple[str, ...] = ()
    several_truths: int = 0
    several: int = 0
    naming: tuple[str, ...] = ()
    encoding: str | None = None
    joined: Joined | None = None

    def lines(self) -> Iterator[str]:
        """Yield the report on the file: which column holds each field, in how many cases, and what is not used."""
        count = len(self.cases)
        yield f"{self.name}: {count} {'case' if count == 1 else 'cases'} ({self.columns.layout})"
        if self.joined:
            yield f"  {self.joined}"
        yield from self.columns.lines(self._count, count)
        if self.unnamed:
            yield f"  id: missing in {self.unnamed} of {count}, which are paired with other files by their question"
        if self.system is not None:
            yield f"  system: '{self.system}', for answers that name none"
        if self.encoded:
            yield f"  JSON strings, read without their quotation marks: {', '.join(map(repr, self.encoded))}"
        for name, options in self.columns.ambiguous.items():
            yield f"  {FIELDS[name]}: not read; {options}"
        if self.columns.unused:
            yield f"  not used: {', '.join(map(repr, self.columns.unused))}"
        if self.left_out:
            yield f"  skipped: {counted(len(self.left_out), 'bad row')}"
        if self.encoding:
            yield f"  warning: it looks like {self.encoding}; if the texts look wrong, give --encoding {self.encoding}"
        contexts = [text for case in self.cases for text in case.contexts]
        words = [word for case in self.cases for word in (case.reference or "").split() if not word.isdecimal()]
        for name, texts, is_told in (
            ("retrieved contexts", contexts, are_labels(contexts)),
            ("references", words, all(map(is_label, words))),
        ):
            if texts and is_told:
                yield f"  warning: the {name} look like ids, links, titles or names of files, not texts: '{texts[0]}'"
        ids = [(case.context_ids, case.gold_chunk_ids) for case in self.cases]
        if any(retrieved for retrieved, _ in ids) and (why := never_match(ids)):
            yield f"  warning: {why}"
        yield from self._doubts()
        for name, meaning in self.columns.overlooked.items():
            yield f"  warning: column '{name}' is not used; {meaning}"

    def _doubts(self) -> Iterator[str]:
        """Yield a warning for each kind of text that may not mean what it says. All are judged as they are."""
        texts = {
            "question": [case.question for case in self.cases],
            "answer": [text for case in self.cases for text in case.answers.values()],
            "contexts": [text for case in self.cases for text in case.contexts],
            "truth": [case.truth or "" for case in self.cases],
        }
        for doubt in doubts(texts):
            yield f"  warning: {doubt}"
        for doubt in several_truths(self.several_truths, len(self.cases), self.columns.of.get("truth", "")):
            yield f"  warning: {doubt}"
        contexts = [case.contexts for case in self.cases if case.contexts]
        joined = [one[0] for one in contexts if len(one) == 1 and SEVERAL_CONTEXTS.search(one[0])]
        if 2 * len(joined) > len(contexts) and all(len(one) == 1 for one in contexts):
            said = f"{len(joined)} of {len(contexts)} seem to be several in one text, which is read as one"
            yield f"  warning: retrieved contexts: {said}; to separate them, write a JSON list: {joined[0]}"
        if prompts := [case for case in self.cases if any(map(partial(_is_inside, case.question), case.contexts))]:
            said = f"{len(prompts)} of {len(self.cases)} contain a retrieved context"
            yield f"  warning: question: {said}; if it is the whole prompt, add --map question=COLUMN"
        if self.several:
            said = (
                f"several answers to {counted(self.several, 'question')}; if they are of several systems, or versions"
            )
            yield f"  warning: {said} of one, add {one_option('system', self.naming or ('COLUMN',))}"
        if self.repeated:
            said = f"{counted(self.repeated, 'case')} with the question, answer and contexts of another"
            yield f"  warning: {said}; all are judged"

    def _count(self, name: str) -> int:
        """Return the number of cases for which the file has a value of this field."""
        if name == "id":
            return len(self.cases) - self.unnamed
        if name == "system":
            return sum(self.system not in case.answers for case in self.cases)
        if name in ("answer", "answers"):
            return sum(len(case.answers) > len(case.unanswered) for case in self.cases)
        return sum(getattr(case, name) not in (None, ()) for case in self.cases)

    def __str__(self) -> str:
        return "\n".join(("  " if line.startswith(" ") else "") + one_line(line) for line in self.lines())


class BadRows(InputError):
    """Raised for rows that cannot be read; its lines give the reason for each.

    reasons: for each bad row, or for the first of them. bad, rows: how many rows are bad, and how many there are.
    others: whether some rows can be read.
    """

    def __init__(self, reasons: list[str], bad: int, rows: int, others: bool):
        shown = [one_line(reason) for reason in reasons[:MOST_TOLD]]
        if bad > MOST_TOLD:
            shown.append(f"and {bad - MOST_TOLD} more")
        if bad > 1:
            way_out = "fix them, or add --skip-bad-rows" if others else "fix them"
            shown.append(f"{bad} of {rows} rows cannot be read; {way_out}")
        self._lines = shown
        super().__init__("; ".join(shown))

    @property
    def lines(self) -> list[str]:
        return self._lines


def read_cases(
    source: Any,
    names: Mapping[str, str | int | Sequence[str | int]] | None = None,
    *,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    system: str | None = None,
    judged: bool = True,
    against: str | None = None,
    joined: Any = None,
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
        joined: Another file or object, such as that of the questions. Its columns are added to the rows with the same
            id, or else with the same question.

    Raises:
        InputError: If a column is missing or ambiguous, or if rows cannot be read or joined. It names file, line and
            column of the first 20 such rows.
    """
    needs = {field: NEEDED[field] for field in NEEDED if field != "contexts" or (judged and against is None)}
    needs |= {kind: {kind, "passage"} if kind == CONTEXTS else {kind} for kind in named_sources(against)}
    wanted = Wanted.of(names or {}, needs)
    if isinstance(source, (str, Path)):
        path = Path(source)
        name, default = str(path), path.name.removesuffix(".gz").rpartition(".")[0] or path.name
        rows: Callable[[], Iterator[PlacedRow]] = partial(read_table, path, encoding, wanted.names)
    else:
        name, default = type(source).__name__, "answer"
        with locate(name):
            rows = list(read_objects(source, wanted.names)).__iter__
    other = None
    if joined is not None:
        other, rows = join(name, rows, joined, encoding, wanted.names.get("id"))
    found = _Reader(name, rows, wanted, system or default).read(skip_bad_rows)
    doubted = doubted_encoding(Path(source), encoding) if encoding and isinstance(source, (str, Path)) else None
    return replace(found, encoding=doubted, joined=other)


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file, each with its place. Raises InputError at the first that cannot be read."""
    for place, row in read_table(path):
        if isinstance(row, InputError):
            raise InputError(f"{place}: {row}")
        yield place, row


def read_fields(
    name: str, rows: Callable[[], Iterator[PlacedRow]], wanted: Wanted
) -> tuple[Columns, Iterator[PlacedRow]]:
    """Return which columns of a file hold the wanted fields, and its rows, each with its place.

    rows: returns the rows of the file anew. Raises InputError as both do.
    """
    reader = _Reader(name, rows, wanted, "")
    columns, _ = reader.columns()
    return columns, reader.placed(columns)


def _several_answers(cases: Iterable[Case]) -> int:
    """Return the number of questions with several different answers."""
    answers = {(case.question, *case.answers.values()) for case in cases}
    return sum(number > 1 for number in Counter(question for question, *_ in answers).values())


def question_id(question: str) -> str:
    """Return the id of a case whose file gives none. Equal questions have equal ids."""
    return text_id("q", question)


@dataclass
class _Reader:
    """Reads one source twice: first for its columns, then for its cases."""

    name: str
    rows: Callable[[], Iterator[PlacedRow]]
    wanted: Wanted
    system: str
    bad: list[str] = field(default_factory=list)
    unnamed: int = 0
    first: dict[tuple[str, ...], tuple[str, Case]] = field(default_factory=dict)  # by id and systems
    duplicate: str | None = None  # the first duplicate of an id
    asked_otherwise: bool = False  # whether one has another question
    repeated: Counter[tuple[str, ...]] = field(default_factory=Counter)
    encoded: set[str] = field(default_factory=set)  # columns in which every text is a JSON string
    several_truths: int = 0
    commas: set[str] = field(default_factory=set)  # columns with a number that has a decimal comma

    def read(self, skip_bad_rows: bool) -> CaseFile:
        columns, survey = self.columns()
        cases = []
        for place, row in self.placed(columns):
            try:
                with locate(place):
                    if isinstance(row, InputError):
                        raise row
                    cases.append(self._case(row, columns, place))
            except InputError as error:
                self.bad.append(str(error))
        if self.bad and not (skip_bad_rows and cases):
            if self.duplicate and not self.asked_otherwise and (naming := self._naming(columns, "id")):
                is_one = f"'{naming[0]}'" if len(naming) == 1 else "one of the columns"
                told = f"if {is_one} names the system of each row, add {one_option('system', naming)}"
                raise InputError(f"{self.duplicate}: {told}")
            raise BadRows(self.bad, len(self.bad), survey.rows, others=bool(cases) and self.duplicate is None)
        by_name = self.system if any(self.system in case.answers for case in cases) else None
        texts = {(case.question, *case.answers.items(), case.contexts) for case in cases}
        repeated = len(cases) - len(texts)
        encoded = tuple(
            name for name in dict.fromkeys([*columns.of.values(), *columns.systems]) if name in self.encoded
        )
        several = 0 if columns.of.keys() & {"system", "answers", "run"} else _several_answers(cases)
        naming = self._naming(columns, "question") if several else ()
        return CaseFile(
            self.name,
            cases,
            columns,
            unnamed=self.unnamed,
            left_out=tuple(self.bad),
            system=by_name,
            repeated=repeated,
            encoded=encoded,
            several_truths=self.several_truths,
            several=several,
            naming=naming,
        )

    def placed(self, columns: Columns) -> Iterator[PlacedRow]:
        """Return the rows, of which one stands for all passages of an answer."""
        return self._grouped(columns) if "passage" in columns.of else self._filled()

    def _naming(self, columns: Columns, field: str) -> tuple[str, ...]:
        """Return the unused columns that may name the system of each row: rows with the same field differ in them."""
        rows = (row for _, row in self.placed(columns) if not isinstance(row, InputError))
        keyed = ((" ".join(str(columns.value(row, field)).split()), row) for row in rows)
        return () if "system" in columns.of else tuple(naming_systems(keyed, columns.unused))

    def columns(self) -> tuple[Columns, Survey]:
        """Return the chosen columns, and what the columns of the file hold."""
        survey = Survey.of(self.rows(), {path for _, path in self.wanted.paths})
        self.encoded, self.commas = survey.encoded, survey.commas
        if not survey.rows:
            raise InputError(f"{self.name}: no rows")
        if not survey.sample:
            reasons = [f"{place}: {row}" for place, row in islice(self.rows(), MOST_TOLD)]
            raise InputError(survey.header) if survey.header else BadRows(reasons, survey.rows, survey.rows, False)
        try:
            with locate(self.name):
                self.wanted = self.wanted.as_written(survey)
                if not any(count for name, count in survey.there.items() if not name.startswith(UNNAMED)):
                    raise InputError("all cells of the columns with a name are blank")
                return choose(survey, self.wanted), survey
        except InputError:
            if survey.header is None:
                raise
            raise InputError(survey.header) from None

    def _filled(self) -> Iterator[PlacedRow]:
        """Yield all rows except empty ones, which spreadsheets have."""
        for place, row in self.rows():
            if isinstance(row, InputError):
                yield place, row
            elif not all(map(is_nothing, row.values())):
                for name in self.encoded:
                    row[name] = unquoted(row.get(name))
                yield place, row

    def _grouped(self, columns: Columns) -> Iterator[PlacedRow]:
        """Yield one row for each answer, with the passages of all its rows.

        Passages are ordered by their ids if these are ranks, otherwise as the rows are. If a query has several answers,
        or an id several questions, an InputError is yielded in place of its row.
        """
        groups: dict[tuple[str, ...], list[tuple[str, Row]]] = {}
        for place, row in self._filled():
            if isinstance(row, InputError):
                yield place, row
                continue
            id_, question, *rest = (columns.value(row, name) for name in ("id", "question", "run", "system"))
            key = tuple(map(str, (question if is_nothing(id_) else id_, *rest)))
            groups.setdefault(key, []).append((place, row))
        for rows in groups.values():
            merged: Row = {}
            for _, row in rows:
                merged.update({name: value for name, value in row.items() if is_nothing(merged.get(name))})
            if why := _conflict(rows, columns):
                yield rows[0][0], InputError(why)
            else:
                yield rows[0][0], {**merged, **_passages([row for _, row in rows], columns)}

    def _case(self, row: Row, columns: Columns, place: str) -> Case:
        def read(name: str, convert: Callable[[Any], Any]) -> Any:
            if name not in columns.of:
                return convert(None)
            with locate(f"column '{columns.of[name]}'"):
                return convert(columns.value(row, name))

        def read_amount(name: str) -> float | None:
            amount: float | None = read(name, partial(_amount, has_comma=columns.of.get(name) in self.commas))
            return amount

        question = read("question", as_text)
        if question is None:
            raise InputError(_no_question(row, columns))
        answers, unanswered = self._answers(row, columns, read("system", as_id))
        passed = "passage" if "passage" in columns.of else "contexts"
        as_contexts = partial(as_chunks, column=columns.of.get(passed, ""), separator=columns.separator)
        contexts, ids = read(passed, as_contexts)
        case = Case(
            "",
            question,
            answers,
            contexts,
            read("truth", as_truth),
            read("reference", _reference),
            read("slice_tag", as_id),
            read("context_ids", as_ids) or ids,
            read("gold_chunk_ids", as_ids),
            read_amount("latency_s"),
            unanswered,
            read_amount("cost_usd"),
            not contexts and read("context_ids", is_empty_list),
        )
        with suppress(InputError):
            self.several_truths += len({*as_truths(columns.value(row, "truth"))}) > 1
        return replace(case, id=self._id(read("id", as_id), case, columns, row, place))

    def _id(self, given: str | None, case: Case, columns: Columns, row: Row, place: str) -> str:
        """Return the given id, or one derived from the question.

        Repeated questions and runs get a number from the second on. Raises InputError for a duplicate id, and if rows
        look like the passages of one answer.
        """
        id_ = given or question_id(case.question)
        of = (id_, *case.answers)
        earlier = self.first.setdefault(of, (place, case))
        self.unnamed += given is None
        if earlier[0] != place and "contexts" in columns.of and isinstance(columns.value(row, "contexts"), str):
            other = earlier[1]
            if other.answers == case.answers and other.contexts != case.contexts:
                raise InputError(
                    f"has the same question and answer as {earlier[0]} but another context: if each row is one "
                    f"retrieved passage, add {option('passage', columns.of['contexts'])}"
                )
        if given is not None and earlier[0] != place and "run" not in columns.of:
            is_same = earlier[1].question == case.question
            told = f"duplicate id '{id_}', also in {earlier[0]}{'' if is_same else ', with another question'}"
            self.duplicate = self.duplicate or f"{place}: {told}"
            self.asked_otherwise |= not is_same
            column = columns.of["id"]
            way_out = f", or remove column '{column}'"
            if not is_same:
                way_out = f"; if column '{column}' holds other ids, such as those of documents, remove or rename it"
            raise InputError(f"{told}: give each row its own id{way_out}")
        self.repeated[of] += 1
        return id_ if self.repeated[of] == 1 else f"{id_}#{self.repeated[of]}"

    def _answers(self, row: Row, columns: Columns, system: str | None) -> tuple[dict[str, str], dict[str, str]]:
        """Return each system's answer, and for each system without one the reason.

        system: the one that the row names. If the row has several answers, each of their names begins with it.
        A missing answer is an empty text. Raises InputError if the column `answers` cannot be read as answers by
        system.
        """
        if columns.systems:
            there = {name: at_path(row, name) for name in columns.systems}
            found = [(name, name, None if value is ABSENT else value) for name, value in there.items()]
        elif "answers" in columns.of:
            name, several = columns.of["answers"], unfolded(columns.value(row, "answers"))
            if isinstance(several, list) and ("answers" in self.wanted.names or "reference" in columns.of):
                several = {LETTERS[at] if at < len(LETTERS) else str(at): answer for at, answer in enumerate(several)}
            if isinstance(several, Mapping) and any(isinstance(one, list) for one in several.values()):
                raise InputError(
                    f"column '{name}' holds lists, not one answer for each system: for gold answers, add "
                    f"{option('truth', name)}"
                )
            if isinstance(several, list):
                raise InputError(
                    f"column '{name}' is a list that does not name the systems: for gold answers, add "
                    f"{option('truth', name)}; for answers of systems, {option('answers', name)}, which calls them "
                    "A, B, ..."
                )
            if is_nothing(several):
                raise InputError(f"column '{name}' is empty: fill it in, or remove the row")
            if not isinstance(several, Mapping):
                hint = f"; if it holds the {FIELDS['answer']} of one system, add {option('answer', name)}"
                raise InputError(f"column '{name}' must be an object of answers by system{hint}")
            if not 1 <= len(several) <= len(LETTERS):
                raise InputError(f"column '{name}' has {len(several)} answers, must have 1 to {len(LETTERS)}")
            found = [(str(of), name, value) for of, value in several.items()]
        else:
            found = [(system or self.system, columns.of["answer"], columns.value(row, "answer"))]
            system = None
        answers, unanswered = {}, {}
        for of, name, value in found:
            with locate(f"column '{name}'"):
                text, why = _answer(_joined(value, name, row, "answer" in self.wanted.names), row)
            called = f"{system}: {of}" if system else of
            answers[called] = text or ""
            if text is None:
                unanswered[called] = why
        return answers, unanswered


def _joined(value: Any, name: str, row: Row, is_given: bool) -> Any:
    """Return one text if a path leads to that of one object, or, if it is given, to those of several objects.

    Raises InputError for any other list of texts, which may be gold answers. Other values are returned unchanged.
    """
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        return value
    outer = unfolded(at_path(row, name.rpartition(".")[0])) if name not in row else None
    if not (isinstance(outer, list) and (is_given or len(value) == 1)):
        raise InputError(
            f"must be a text, found a list: for gold answers, add {option('truth', name)}; if its first item is the "
            f"answer, {option('answer', f'{name}.0')}"
        )
    return " ".join(map(str.strip, value))


def _answer(value: Any, row: Row) -> tuple[str | None, str]:
    """Return an answer's text and "". If there is none, return None and the reason, such as the system's error.

    A text that repeats the error of its row is no answer.
    """
    told = value.get("error") if isinstance(value, Mapping) else None
    if isinstance(value, str) and value.strip() in SPREADSHEET_ERRORS:
        told = value.strip()
    if told is None and (text := as_text(value)) is not None:
        error = str(row.get("error") or "").strip()
        if len(error) < SHORTEST_ERROR or error not in text:
            return text, ""
    for name in ("status", "error"):  # `rag-zeval collect` writes a status
        if told is None and not is_nothing(row.get(name)) and row[name] != "ok":
            told = row[name]
    if isinstance(told, Mapping):
        told = told.get("message") or told.get("type")
    told = str(told or "").removeprefix("failed: ")
    return None, f"no answer: {one_line(told)}" if told else "no answer"


def _is_inside(question: str, context: str) -> bool:
    """Whether a question holds a context that is long enough not to be there by chance."""
    return len(context.strip()) >= LONG_CONTEXT and context.strip() in question


def _no_question(row: Row, columns: Columns) -> str:
    """Return what to do about a row without a question. If it has only a context, it may continue the row above."""
    asked, contexts = columns.of["question"], columns.of.get("contexts", "")
    if contexts and is_nothing(columns.value(row, "answer")) and not is_nothing(columns.value(row, "contexts")):
        more = f"if '{contexts}' is one more passage of the row above, repeat its '{asked}' here, and add"
        return f"column '{asked}' is empty: {more} {option('passage', contexts)}; else fill it in, or remove the row"
    return f"column '{asked}' is empty: fill it in, or remove the row"


def _conflict(rows: list[tuple[str, Row]], columns: Columns) -> str | None:
    """Return in words what differs between rows that should be passages of one answer, or None."""
    for name in ("question", "answer"):
        places: dict[str, str] = {}  # of each text, its first
        for place, row in rows:
            if not is_nothing(value := columns.value(row, name)):
                places.setdefault(" ".join(str(value).split()), place)
        if len(places) > 1:
            first, second, *_ = places.values()
            return f"its query has {len(places)} different {name}s, at {first} and {second}: give each its own id"
    return None


def _passages(rows: list[Row], columns: Columns) -> Row:
    """Return the passages of an answer's rows, and their ids, under the names of their columns.

    They are ordered by their ids if these are ranks: the numbers from 0 or 1 on, without gaps. Other numbers are ids of
    documents, which say nothing about the order.
    """
    there = [row for row in rows if not is_nothing(columns.value(row, "passage"))]
    numbers = [str(columns.value(row, "context_ids")).strip("[] ") for row in there]
    for first in (0, 1):
        ranks = {str(first + at): at for at in range(len(there))}
        if ranks.keys() == set(numbers):
            there = [row for _, row in sorted(zip(numbers, there, strict=True), key=lambda pair: ranks[pair[0]])]
    names = [name for name in ("passage", "context_ids") if name in columns.of]
    return {columns.of[name]: [columns.value(row, name) for row in there] for name in names}


def _reference(value: Any) -> str | None:
    return BETWEEN.join(as_texts(value)) or None


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
