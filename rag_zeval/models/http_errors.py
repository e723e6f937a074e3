"""HTTP errors of an endpoint, such as 429: which requests are retried, and what the server says went wrong.

The openai client itself retries after 408, 409, 429, 5xx and broken connections, and waits as long as `Retry-After`
says. Some servers send an error with status 200. `error_status` finds such an error in the JSON, so that the client
treats the answer as if it had the error's own status.
"""

import re
from typing import Any

from rag_zeval.models.responses.bounded_http import json_or_none

RETRIES = 5  # most retries of one request
UNNAMED = 400  # HTTP status for an error that names none: it is not retried
CODES = ("code", "status", "status_code", "statusCode", "http_status", "error_code")  # fields with an HTTP status
MESSAGES = ("message", "detail", "msg")
# HTTP statuses of errors that have a name instead of a number.
NAMED = {
    429: re.compile("rate_?limit|too_?many_?requests|resource_?exhausted|throttl"),
    503: re.compile("overloaded|unavailable"),
    504: re.compile("time_?out|timed_?out|deadline_?exceeded"),
    500: re.compile(r"server_?error|internal_?error|\A(?:api_error|internal)\Z"),
}


def error_status(answer: Any) -> int | None:
    """Return the HTTP status of the error in an answer's JSON: UNNAMED if it names none; None if there is no error."""
    error = _error(answer)
    return None if error is None else _named_status(error) or UNNAMED


def error_text(response: Any, text: str, sent: int | None) -> str:
    """Return what a server says went wrong, as `HTTP status: message`; for a redirect, its target.

    text: the body. sent: the HTTP status that the server sent. `response` may have that of the error in its body.
    """
    status = f"HTTP {response.status_code}"
    if response.has_redirect_location:
        return f"{status}: redirects to {response.headers['location']}; prompts are not sent there"
    if sent not in (None, response.status_code):
        named = _named_status(_error(json_or_none(text)) or {})
        status = f"HTTP {sent} with {f'error {named}' if named else 'an error'}"
    message, _ = error_fields(text)
    return f"{status}: {message}" if message.strip() else status


def error_fields(text: str) -> tuple[str, str]:
    """Return the message in an error's body (or the whole body), and the request parameter that it names (or "")."""
    error = _error(json_or_none(text)) or {}
    parameter = error.get("param")
    return _message(error) or text, parameter if isinstance(parameter, str) else ""


def _error(answer: Any) -> dict[str, Any] | None:
    """Return the error in an answer, merged with the fields beside it; None if the answer is a result.

    The error is the field "error" of the answer or of its first choice, or the first entry of the field "errors". The
    answer may be wrapped in a list. An answer without choices and data can be an error itself.
    """
    body = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    for place in (body, _first(choices)):
        if isinstance(place, dict) and (error := place.get("error") or _first(place.get("errors"))):
            return {**body, **(error if isinstance(error, dict) else {"message": error})}
    is_error = body.get("object") == "error" or any(body.get(name) for name in MESSAGES)
    return body if is_error and not choices and not body.get("data") else None


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _named_status(error: dict[str, Any]) -> int | None:
    """Return the HTTP status that an error gives as a number or by a name; None if it gives none."""
    for field in CODES:
        code = error.get(field)
        if type(code) in (int, str) and re.fullmatch("[45][0-9][0-9]", str(code)):
            return int(str(code))
    names = [str(error.get(field)).lower().replace("-", "_").replace(" ", "_") for field in ("type", *CODES)]
    return next((status for status, name in NAMED.items() if any(map(name.search, names))), None)


def _said(value: Any) -> str:
    """Return a field of an error as text: a text, or FastAPI's list of what is wrong where ("" for anything else).

    An entry of that list also holds what was sent, which is left out.
    """
    if isinstance(value, list) and all(isinstance(one, dict) and isinstance(one.get("msg"), str) for one in value):
        places = (one["loc"] if isinstance(one.get("loc"), list) else [] for one in value)
        return "; ".join(": ".join([".".join(map(str, at)), one["msg"]]) for at, one in zip(places, value, strict=True))
    return value if isinstance(value, str) else ""


def _message(error: dict[str, Any]) -> str:
    """Return an error's message. A router such as OpenRouter adds the message of the server behind it."""
    said = next((text for name in MESSAGES if (text := _said(error.get(name))).strip()), "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f"{said}: {raw}" if said and isinstance(raw, str) and raw.strip() else said
