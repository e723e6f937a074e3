"""From a judge's text to a value, or to the reason why there is none. Nothing is ever made up for what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rag_zeval.models.language_model import one_line
from rag_zeval.replies import loose_json

T = TypeVar("T")
QUOTED = 80  # characters of an unreadable reply shown in its reason

# A bracket that opens JSON: not `[sic]` or `{name}`. `[1]`, a citation, is JSON all the same, and no reply by itself.
_OPENING = re.compile(r"""[\[{](?=\s*(?:["'\[{\]}\d-]|(?:true|false|null|True|False|None|NaN)\b))""")


class Unreadable(ValueError):
    """The reply says nothing of the kind that was asked for; the message says why."""


def read_json(text: str, read: Callable[[Any], T]) -> T:
    """What `read` makes of the JSON in a reply: bare, or with fences, prose or a chain of thought around it.

    JSON as models write it is understood (rag_zeval.replies.loose_json); NaN is null. `read` raises
    Unreadable (or any error of a wrong type or key) for a value of another shape. Raises Unreadable when no value has
    the right shape, when JSON begins that does not end, and when two values differ: which is meant is not ours to say.
    """
    text = without_thoughts(text)
    shown = quoted(text)
    found: list[T] = []
    reason = f"no JSON in the reply {shown}"
    for value in _values(text):
        try:
            result = read(value)
            differs = result not in (found or [result])
        except Unreadable as error:
            reason = str(error)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError):
            reason = f"JSON of another shape: {shown}"
        else:
            if differs:
                raise Unreadable(f"2 different answers in one reply {shown}")
            found = found or [result]
    if not found:
        raise Unreadable(reason)
    return found[0]


def without_thoughts(text: str) -> str:
    """What a reply says after its chain of thought. Raises Unreadable if that is nothing."""
    text = text.rpartition("</think>")[2].strip()
    if not text:
        raise Unreadable("the reply is empty")
    return text


def _values(text: str) -> Iterator[Any]:
    """The JSON values that stand in a text one after the other."""
    end = 0
    try:
        for value, _, end in loose_json.iter_values(text, _OPENING.search):  # noqa: B007 (used at its failure)
            yield value
    except loose_json.Unreadable as error:
        rest = text[next(_OPENING.finditer(text, end)).start() :]
        raise Unreadable(f"JSON that cannot be read: {quoted(rest)}") from error


def quoted(text: str) -> str:
    """The beginning of a reply in one line, as a reason shows it."""
    line = one_line(text)
    return repr(line if len(line) <= QUOTED else line[:QUOTED] + "…")


def a_text(value: Any) -> str:
    """A string with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise Unreadable(f"{quoted(str(value))} is no text")
    return value.strip()


def a_list(value: Any, length: int | None = None) -> Sequence[Any]:
    """A list, of that length if one is given: what is missing is not filled up, what is too much is not cut."""
    if not isinstance(value, list):
        raise Unreadable(f"{quoted(str(value))} is no list")
    if length is not None and len(value) != length:
        raise Unreadable(f"{len(value)} judgements of {length}")
    return value


def yes_or_no(value: Any) -> bool:
    """A verdict: true or false, 1 or 0, also as text."""
    if isinstance(value, str):
        value = {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0}.get(value.strip().lower(), value)
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise Unreadable(f"{quoted(str(value))} is neither 1 nor 0")
    return bool(value)


def one_of(value: Any, labels: Sequence[str]) -> str:
    """One of the labels, in any case."""
    known = {label.lower(): label for label in labels}
    label = known.get(value.strip().lower()) if isinstance(value, str) else None
    if label is None:
        raise Unreadable(f"{quoted(str(value))} is none of {', '.join(labels)}")
    return label


def a_number(value: Any, low: float, high: float) -> float:
    """A number from low to high, also as text."""
    if isinstance(value, str):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Unreadable(f"{quoted(str(value))} is no number from {low:g} to {high:g}")
    return float(value)


def a_whole_number(value: Any, low: int, high: int) -> int:
    """A whole number from low to high, also as text."""
    number = a_number(value, low, high)
    if not number.is_integer():
        raise Unreadable(f"{quoted(str(value))} is no whole number")
    return int(number)
