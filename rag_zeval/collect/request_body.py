"""The request to a RAG system: a JSON body or URL parameters, with one place for the question."""

import copy
import hashlib
import json
from collections.abc import Mapping
from functools import reduce
from typing import Any

from rag_zeval.errors import InputError, needed
from rag_zeval.files import DECODER, Row, json_line
from rag_zeval.text import one_line

Parts = tuple[str | int, ...]  # path to a place: names of fields, and numbers of list items


class RequestBody:
    """A request's fields: one place for the question, and values that are the same for all questions.

    question_field: where to put the question: the name of a field, or the JSONPath of a place in the template.
    constants: values of other such places. A text that is JSON is read as JSON, so "5" is a number.
    template: all other fields.
    get: whether to send the fields as URL parameters. Their values must then be texts, numbers, booleans or lists of
    these.

    Raises InputError for a JSONPath that does not find exactly one place, and for a URL parameter of another type.

        body = RequestBody("$.messages[-1].content", {"model": "m"}, {"model": "", "messages": [{"content": ""}]})
        body.sent("Who?")  # {"content": '{"model": "m", "messages": [{"content": "Who?"}]}'}
    """

    def __init__(
        self,
        question_field: str = "question",
        constants: Mapping[str, str] | None = None,
        template: Row | None = None,
        get: bool = False,
    ):
        self.method, self._field = "GET" if get else "POST", question_field
        self._given = bool(constants) or template is not None
        self._body = copy.deepcopy(template or {})
        for place, text in (constants or {}).items():
            _put(self._body, _parts(self._body, place, "--constant"), _value(text))
        self._question = _parts(self._body, question_field, "--question-field")
        self.sent("")

    @property
    def settings(self) -> Row:
        """What an answer's row records about the request. The body may hold anything, so only its hash is recorded."""
        told: Row = {"question_field": self._field}
        if self.method != "POST":
            told["method"] = self.method
        if self._given:
            told["body"] = hashlib.sha256(json_line(self._body)).hexdigest()[:16]
        return told

    def sent(self, question: str) -> dict[str, Any]:
        """Return the HTTP client's arguments for a request with this question."""
        body = copy.deepcopy(self._body)
        _put(body, self._question, question)
        if self.method == "POST":
            return {"content": json.dumps(body)}
        return {"params": [pair for name, value in body.items() for pair in _parameters(name, value)]}


def compiled(path: str, option: str) -> Any:
    """Return a compiled JSONPath (RFC 9535). Raises InputError naming the option if `path` is not one."""
    with needed("python-jsonpath", "finding a place by JSONPath"):
        import jsonpath
    try:
        return jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        raise InputError(f"{option} '{path}' is not a JSONPath: {one_line(str(error))}") from error


def _parts(body: Row, place: str, option: str) -> Parts:
    """Return the path to a place in the body. A name without a leading "$" is a field, which may be missing."""
    if not place.startswith("$"):
        return (place,)
    found = [match.parts for match in compiled(place, option).finditer(body) if match.parts]  # no parts: the whole body
    if len(found) != 1:
        raise InputError(
            f"{option} '{place}' finds {len(found)} places in the request, expected one; give the request in --body"
        )
    return tuple(found[0])


def _put(body: Row, parts: Parts, value: Any) -> None:
    *above, last = parts
    reduce(lambda inner, part: inner[part], above, body)[last] = value  # type: ignore[index]


def _value(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, InputError, RecursionError):
        return text


def _parameters(name: str, value: Any) -> list[tuple[str, str]]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) for one in values):
        raise InputError(
            f"--get sends fields in the URL: field '{name}' must be a text, a number, true, false or a list of these"
        )
    return [(name, one if isinstance(one, str) else json.dumps(one)) for one in values]
