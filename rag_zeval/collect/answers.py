"""The rows of collected answers: what a system said to a question, over HTTP or as a function, or why nothing."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rag_zeval.collect.request_body import RequestBody, compiled
from rag_zeval.errors import InputError, needed
from rag_zeval.files import (
    NONE,
    NUMBER_OR_NONE,
    FieldTypes,
    Maybe,
    Row,
    check_fields,
    first_difference,
    iter_jsonl,
    json_line,
    locate,
    parse_row,
)
from rag_zeval.models.http_errors import error_text
from rag_zeval.models.keys import needed_key
from rag_zeval.models.responses.bounded_http import MIB, Exchange, exchange, innermost_reason, open_http, read_json
from rag_zeval.rows import RowWriter
from rag_zeval.secrets import hide_header, scrub, without_keys
from rag_zeval.text import one_line

BODY_MIB = 16  # of a system's answer
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
KEPT: FieldTypes = {  # of a question
    "truth": Maybe((str, NONE)), "slice_tag": Maybe((str, NONE)), "gold_chunk_ids": Maybe([str]),
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What a system said to a question: the answer, the chunks it read for it, best first, and their ids.

    contexts, context_ids: None where it does not tell. Raises ValueError for what is no text, or ids of other chunks.
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


def read_questions(path: str | Path) -> list[Row]:
    """The rows of a JSONL file of questions: "id" (else the line number), "question", and of KEPT what is there.

    Raises InputError naming file, line and field at the first row that does not fit, or if there is none.
    """
    questions: dict[str, Row] = {}
    for number, row in iter_jsonl(path, {"question": str}):
        with locate(f"{path}:{number}"):
            check_fields(row, {"id": Maybe((str, int)), **KEPT})
            id_ = str(row.get("id", number))
            if id_ in questions:
                raise InputError(f"duplicate id '{id_}'")
        kept = {name: row[name] for name in KEPT if name in row}
        questions[id_] = {"id": id_, "question": row["question"], **kept}
    if not questions:
        raise InputError(f"{path}: no rows")
    return list(questions.values())


def answer_row(question: Row, found: Found | None, status: str, seconds: float) -> Row:
    """The row of a question: what was found for it, or null and the status "failed: reason"; the system's seconds."""
    row = {**question, "answer": found and found.answer, "status": status, "latency_s": seconds if found else None}
    if found is not None and found.contexts is not None:
        row["contexts"] = list(found.contexts)
    if found is not None and found.context_ids is not None:
        row["context_ids"] = list(found.context_ids)
    return row


def ask_each(questions: Iterable[Row], ask: Callable[[str], Found]) -> Iterator[Row]:
    """Put questions (as `read_questions` has them) to a function, one after the other; a row for each, timed.

    What it raises is the status of that row alone, without keys: those of the environment, and what looks like one.
    """
    for question in questions:
        started = time.perf_counter()
        found, status = None, "ok"
        try:
            found = ask(question["question"])
        except Exception as error:
            status = f"failed: {one_line(without_keys(f'{type(error).__name__}: {error}'))}"
        yield answer_row(question, found, status, time.perf_counter() - started)


def failed_rows(rows: RowWriter, questions: Sequence[Row], made_by: Row) -> list[str]:
    """The ids of the rows that have failed, to be asked again.

    made_by: what an answer depends on besides the question. Raises InputError if a row is of another question or was
    collected otherwise: one file holds one run.
    """
    asked = {question["id"]: question for question in questions}
    failed = []
    for number, row in enumerate(rows.done.values(), 1):
        with locate(f"{rows.path}:{number}"):
            check_fields(row, {"status": str, "latency_s": NUMBER_OR_NONE})
            if row["id"] not in asked:
                raise InputError(f"row {row['id']!r} belongs to none of the questions; choose another --out")
            now = parse_row(json_line({**asked[row["id"]], **made_by}))
            if differing := first_difference({name: row.get(name) for name in now}, now):
                field = differing.removeprefix("collected.")
                raise InputError(f"row {row['id']!r} was collected with a different {field}; choose another --out")
        if row["status"].startswith("failed"):
            failed.append(row["id"])
    return failed


class AnswerPaths:
    """Where a system's JSON has its answer, its contexts and their ids: JSONPath (RFC 9535), the latter two if at all.

    Raises InputError for what is not a JSONPath.
    """

    def __init__(self, answer: str, contexts: str | None = None, context_ids: str | None = None):
        self.paths = {"answer": answer, "contexts": contexts, "context_ids": context_ids}
        self._compiled: dict[str, Any] = {
            name: None if path is None else compiled(path, "--" + name.replace("_", "-"))
            for name, path in self.paths.items()
        }

    def read(self, body: Any) -> Found:
        """What stands there. Raises ValueError where there is not one answer, or something is no text."""
        answers = self._compiled["answer"].findall(body)
        if len(answers) != 1:
            raise ValueError(
                f"{self.paths['answer']} finds {len(answers)} values in the system's response, expected one"
            )
        return Found(answers[0], self._texts("contexts", body), self._texts("context_ids", body))

    def _texts(self, name: str, body: Any) -> tuple[str, ...] | None:
        if self._compiled[name] is None:
            return None
        found = self._compiled[name].findall(body)
        values = found[0] if len(found) == 1 and isinstance(found[0], list) else found
        return tuple(str(value) if name == "context_ids" and type(value) is int else value for value in values)


class System:
    """A RAG system over HTTP, which gets a request with each question.

    headers: NAMES of environment variables with the value of each header. timeout: seconds for an answer. Nothing is
    asked twice, an answer has at most BODY_MIB MiB, redirects are not followed, and header values are taken out of it.
    Raises InputError for a URL with a user, a query or a fragment (it is written into every row, so it may hold no
    secret), a header that cannot be sent, and a variable that is not set.
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
        with needed("openai", "asking over HTTP"):
            self._http = open_http(BODY_MIB * MIB)

    @property
    def settings(self) -> Row:
        """What an answer's row depends on besides the question."""
        return {"url": self.url, **self._request.settings, **self._paths.paths}

    async def ask(self, question: Row) -> Row:
        """The question's row. `latency_s` is from sending it to the last byte of the answer, on a new connection."""
        import anyio

        exchange.set(under_way := Exchange())
        sent = self._request.sent(question["question"])
        headers = {"Content-Type": "application/json", **self._headers}
        found, status = None, "ok"
        started = time.perf_counter()
        try:
            with anyio.fail_after(self._timeout):
                response = await self._http.request(
                    self._request.method, self.url, headers=headers, timeout=None, **sent
                )
            seconds = time.perf_counter() - started
            if under_way.refusal or not response.is_success:
                raise ValueError(under_way.refusal or error_text(response, under_way.text, under_way.status))
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
