"""Asks a RAG system the questions of a test set, over HTTP or as a Python function, and makes a row of each answer."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rag_zeval.cases.cells import as_id, as_ids, as_text, as_truth
from rag_zeval.cases.question_files import QuestionFile, read_question_file
from rag_zeval.cases.reading import question_id
from rag_zeval.collect.request_body import RequestBody, compiled
from rag_zeval.errors import InputError, needed
from rag_zeval.files import (
    NUMBER_OR_NONE,
    Row,
    check_fields,
    first_difference,
    json_line,
    locate,
    parse_row,
)
from rag_zeval.models.http_errors import error_text
from rag_zeval.models.keys import needed_key
from rag_zeval.models.responses.bounded_http import (
    MIB,
    SHOWN,
    Exchange,
    exchange,
    innermost_reason,
    open_http,
    read_json,
)
from rag_zeval.rows import RowWriter
from rag_zeval.secrets import hide_header, scrub, without_keys
from rag_zeval.text import one_line

BODY_MIB = 16  # largest response of a system
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
KEPT = ("truth", "slice_tag", "gold_chunk_ids")  # fields of a question that its row keeps


@dataclass(frozen=True)
class Found:
    """What a system returned for a question: the answer, the retrieved contexts, best first, and their ids.

    contexts, context_ids: None if the system does not return them.

    Raises ValueError for a value that is not text, and if contexts and ids differ in number.
    """

    answer: str
    contexts: tuple[str, ...] | None = None
    context_ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, texts in (("answer", [self.answer]), ("contexts", self.contexts), ("context ids", self.context_ids)):
            for text in texts or ():
                if not isinstance(text, str):
                    raise ValueError(f"{name}: expected text, found {type(text).__name__}")
        contexts, ids = self.contexts, self.context_ids
        if contexts is not None and ids is not None and len(contexts) != len(ids):
            raise ValueError(f"{len(contexts)} contexts and {len(ids)} context ids")


def read_questions(path: str | Path, names: Mapping[str, str | Sequence[str]] | None = None) -> list[Row]:
    """Read a file of questions, as `questions_of` returns them. names: the columns that you choose, as in `evaluate`.

    The file may have any format that `evaluate` reads, and each field any name that it knows.
    """
    return questions_of(read_question_columns(Path(path), names))


def read_question_columns(path: Path, names: Mapping[str, str | Sequence[str]] | None = None) -> QuestionFile:
    """Read the rows of a file with a question in each. See `read_question_file`."""
    return read_question_file(path, ("question", "id", *KEPT), {"question": {"question"}}, names)


def questions_of(read: QuestionFile) -> list[Row]:
    """Return the rows to ask: "question" and "id", and the fields of KEPT that the file has.

    A row without an id gets one derived from its question, as in `evaluate`. Raises InputError naming file, line and
    column at the first row that does not fit, and for a duplicate id.
    """
    questions: dict[str, Row] = {}
    repeated: Counter[str] = Counter()
    for place, row in read.rows.items():
        with locate(place):
            if isinstance(row, InputError):
                raise row
            question = read.value(row, "question", as_text)
            if question is None:
                raise InputError(f"column '{read.columns.of['question']}' is empty: fill it in, or remove the row")
            id_ = read.value(row, "id", as_id)
            if id_ is None:
                repeated[id_ := question_id(question)] += 1
                id_ += f"#{repeated[id_]}" if repeated[id_] > 1 else ""
            if id_ in questions:
                way_out = f"give each row its own id, or remove column '{read.columns.of['id']}'"
                raise InputError(f"duplicate id '{id_}': {way_out}")
            kept: Row = {}
            if "slice_tag" in row:
                kept["slice_tag"] = read.value(row, "slice_tag", as_id)
            if "truth" in row:
                kept["truth"] = read.value(row, "truth", as_truth)
            if row.get("gold_chunk_ids") is not None:
                kept["gold_chunk_ids"] = list(read.value(row, "gold_chunk_ids", as_ids))
        questions[id_] = {"id": id_, "question": question, **kept}
    return list(questions.values())


def answer_row(question: Row, found: Found | None, status: str, seconds: float) -> Row:
    """Return a question's row with the system's answer.

    found: None if the system failed; answer and `latency_s` are then null. status: "ok" or "failed: reason".
    seconds: the time that the system took.
    """
    row = {**question, "answer": found and found.answer, "status": status, "latency_s": seconds if found else None}
    if found is not None and found.contexts is not None:
        row["contexts"] = list(found.contexts)
    if found is not None and found.context_ids is not None:
        row["context_ids"] = list(found.context_ids)
    return row


def ask_each(questions: Iterable[Row], ask: Callable[[str], Found]) -> Iterator[Row]:
    """Call a function with each question of `read_questions`, one after the other, and yield a timed row for each.

    If the function raises, that row alone gets the error as its status. The status is scrubbed of keys, both of those
    in environment variables and of texts that look like a key.
    """
    for question in questions:
        started = time.perf_counter()
        found, status = None, "ok"
        try:
            found = ask(question["question"])
        except Exception as error:
            status = f"failed: {one_line(without_keys(f'{type(error).__name__}: {error}'))}"
        yield answer_row(question, found, status, time.perf_counter() - started)


def still_to_ask(rows: RowWriter, questions: Sequence[Row], made_by: Row | None = None) -> list[Row]:
    """Return the questions that have no answer in the file, and remove the failed rows, which are to be retried.

    made_by: what an answer depends on besides the question. Raises InputError if a row belongs to another question, or
    if an answer was collected with other settings, because one file holds one run. Also raises it for an id that cannot
    be written, because it holds a key.

        with RowWriter("answers.jsonl") as rows:
            for row in ask_each(still_to_ask(rows, questions), ask):
                rows.append(row)
    """
    asked = {question["id"]: question for question in questions}
    for id_ in asked:
        if scrub(id_) != id_:  # the file would hold another id
            raise InputError(f"id {id_!r} holds the value of a header or a key, which is never written; rename it")
    failed = []
    for number, row in enumerate(rows.done.values(), 1):
        with locate(f"{rows.path}:{number}"):
            check_fields(row, {"status": str, "latency_s": NUMBER_OR_NONE})
            if row["id"] not in asked:
                raise InputError(f"row {row['id']!r} belongs to none of the questions; choose another --out")
            if row["status"].startswith("failed"):
                failed.append(row["id"])
                continue
            now = parse_row(json_line({**dict.fromkeys(KEPT), **asked[row["id"]], **(made_by or {})}))
            if differing := first_difference({name: row.get(name) for name in now}, now):
                field = differing.removeprefix("collected.")
                raise InputError(f"row {row['id']!r} was collected with a different {field}; choose another --out")
    rows.settle(failed)
    return [question for id_, question in asked.items() if id_ not in rows.done]


class AnswerPaths:
    """The JSONPaths (RFC 9535) of the answer, the retrieved contexts and their ids in a system's JSON response.

    The last two are optional. Raises InputError for an invalid JSONPath.
    """

    def __init__(self, answer: str, contexts: str | None = None, context_ids: str | None = None):
        self.paths = {"answer": answer, "contexts": contexts, "context_ids": context_ids}
        self._compiled: dict[str, Any] = {
            name: None if path is None else compiled(path, "--" + name.replace("_", "-"))
            for name, path in self.paths.items()
        }

    def read(self, body: Any) -> Found:
        """Return what the paths find. Raises ValueError unless it is exactly one answer and all values are texts."""
        answers = self._compiled["answer"].findall(body)
        if len(answers) != 1:
            begins = json.dumps(body, ensure_ascii=False)[:SHOWN]
            raise ValueError(
                f"{self.paths['answer']} finds {len(answers)} values in the system's response, expected one: {begins}"
            )
        return Found(answers[0], self._texts("contexts", body), self._texts("context_ids", body))

    def _texts(self, name: str, body: Any) -> tuple[str, ...] | None:
        if self._compiled[name] is None:
            return None
        found = self._compiled[name].findall(body)
        values = found[0] if len(found) == 1 and isinstance(found[0], list) else found
        return tuple(str(value) if name == "context_ids" and type(value) is int else value for value in values)


class System:
    """A RAG system that is asked over HTTP, with one request for each question.

    headers: for each header, the NAME of the environment variable that holds its value. timeout: seconds to wait for an
    answer. Requests are not retried, and redirects are not followed. A response has at most BODY_MIB MiB, and header
    values are removed from it.

    Raises InputError for a URL with a user, a query or a fragment: it is written into every row, so it must not hold a
    secret. Also raises it for a header that cannot be sent, and for a variable that is not set.
    """

    def __init__(
        self,
        url: str,
        paths: AnswerPaths,
        *,
        request: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ):
        _check_url(url)
        self.url, self._paths, self._request, self._timeout = url, paths, request or RequestBody(), timeout
        self._headers = {name: _value(name, variable) for name, variable in (headers or {}).items()}
        if "content-type" not in map(str.lower, self._headers):
            self._headers["Content-Type"] = "application/json"
        with needed("openai", "asking over HTTP"):
            self._http = open_http(BODY_MIB * MIB)

    @property
    def settings(self) -> Row:
        """The settings that an answer depends on, besides the question."""
        return {"url": self.url, **self._request.settings, **self._paths.paths}

    async def ask(self, question: Row) -> Row:
        """Ask a question and return its row, in which an error is the status.

        `latency_s` is the time from sending the request to the last byte of the answer, on a new connection.
        """
        import anyio

        exchange.set(under_way := Exchange())
        sent = self._request.sent(question["question"])
        found, status = None, "ok"
        started = time.perf_counter()
        try:
            with anyio.fail_after(self._timeout):
                response = await self._http.request(
                    self._request.method, self.url, headers=self._headers, timeout=None, **sent
                )
            seconds = time.perf_counter() - started
            if under_way.refusal or not response.is_success:
                raise ValueError(under_way.refusal or error_text(response, under_way.text, under_way.status))
            if not under_way.utf8:
                raise ValueError("the system's response is not UTF-8 text, as JSON must be")
            found = self._paths.read(read_json(scrub(under_way.text)))
        except Exception as error:
            seconds = time.perf_counter() - started
            status = f"failed: {one_line(scrub(self._reason(error)))}"
        return answer_row(question, found, status, seconds)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self._timeout:g} s"
        return str(error) if isinstance(error, ValueError) else innermost_reason(error)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(mark in url for mark in "@?#") or not url.isprintable():
        raise InputError("--url: expected http://host:port/path, without user, password, query or fragment")


def _value(name: str, variable: str) -> str:
    if not _HEADER.fullmatch(name):
        raise InputError("--header: write NAME=VARIABLE, where NAME is the name of an HTTP header")
    with locate("--header"):
        value = needed_key(variable, f"the header {name}")
    hide_header(value)
    return value
