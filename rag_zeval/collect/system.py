"""A running RAG system, asked over HTTP."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rag_zeval.collect.answers import Found, answer_row
from rag_zeval.errors import InputError, needed
from rag_zeval.files import Row, locate
from rag_zeval.models.http_errors import error_text
from rag_zeval.models.keys import needed_key
from rag_zeval.models.responses.bounded_http import MIB, Exchange, exchange, innermost_reason, open_http, read_json
from rag_zeval.secrets import hide_header, scrub
from rag_zeval.text import one_line

BODY_MIB = 16  # of a system's answer
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)


class AnswerPaths:
    """Where a system's JSON has its answer, its contexts and their ids: JSONPath (RFC 9535), the latter two if at all.

    Raises InputError for what is not a JSONPath.
    """

    def __init__(self, answer: str, contexts: str | None = None, context_ids: str | None = None):
        self.paths = {"answer": answer, "contexts": contexts, "context_ids": context_ids}
        with needed("python-jsonpath", "reading an answer by JSONPath"):
            import jsonpath
        self._compiled: dict[str, Any] = {}
        for name, path in self.paths.items():
            try:
                self._compiled[name] = None if path is None else jsonpath.compile(path)
            except jsonpath.JSONPathError as error:
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} '{path}' is not a JSONPath: {one_line(str(error))}") from error

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
    """A RAG system over HTTP, which gets `{question_field: question}` by POST.

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
        question_field: str = "question",
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ):
        _check_url(url)
        self.url, self._paths, self._field, self._timeout = url, paths, question_field, timeout
        self._headers = {name: _value(name, variable) for name, variable in (headers or {}).items()}
        with needed("openai", "asking over HTTP"):
            self._http = open_http(BODY_MIB * MIB)

    @property
    def settings(self) -> Row:
        """What an answer's row depends on besides the question."""
        return {"url": self.url, "question_field": self._field, **self._paths.paths}

    async def ask(self, question: Row) -> Row:
        """The question's row. `latency_s` is from sending it to the last byte of the answer, on a new connection."""
        import anyio

        exchange.set(under_way := Exchange())
        body = json.dumps({self._field: question["question"]})
        headers = {"Content-Type": "application/json", **self._headers}
        found, status = None, "ok"
        started = time.perf_counter()
        try:
            with anyio.fail_after(self._timeout):
                response = await self._http.post(self.url, content=body, headers=headers, timeout=None)
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
