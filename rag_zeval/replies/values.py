"""Checks single values of a judge's JSON. Each function raises Unreadable for a value of another kind."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import quoted


def a_text(value: Any) -> str:
    """Return a string that is not blank, without surrounding white space."""
    if not isinstance(value, str) or not value.strip():
        raise Unreadable(f"{quoted(str(value))} is not a text")
    return value.strip()


def a_list(value: Any, length: int | None = None, item: str = "judgement") -> Sequence[Any]:
    """Return a list. If a length is given, the list must have it. item: what the error calls one of its items."""
    if not isinstance(value, list):
        raise Unreadable(f"{quoted(str(value))} is not a list")
    if length is not None and len(value) != length:
        raise Unreadable(f"got {len(value)} {item}{'s' * (len(value) != 1)}, expected {length}")
    return value


def yes_or_no(value: Any) -> bool:
    """Return a verdict: true or false, 1 or 0, "yes" or "no". Numbers and booleans may also be texts."""
    if isinstance(value, str):
        value = {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0}.get(value.strip().lower(), value)
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise Unreadable(f"{quoted(str(value))} is neither yes (true, 1) nor no (false, 0)")
    return bool(value)


def one_of(value: Any, labels: Sequence[str]) -> str:
    """Return the label that the value names. Case does not matter."""
    known = {label.lower(): label for label in labels}
    label = known.get(value.strip().lower()) if isinstance(value, str) else None
    if label is None:
        raise Unreadable(f"{quoted(str(value))} is not one of {', '.join(labels)}")
    return label


def a_number(value: Any, low: float, high: float) -> float:
    """Return a number in [low, high]. It may also be a text."""
    number = value
    if isinstance(value, str):
        with suppress(ValueError):
            number = float(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not low <= number <= high:
        raise Unreadable(f"{quoted(str(value))} is not a number from {low:g} to {high:g}")
    return float(number)


def a_whole_number(value: Any, low: int, high: int) -> int:
    """Return an integer in [low, high]. It may also be a text."""
    number = a_number(value, low, high)
    if not number.is_integer():
        raise Unreadable(f"{quoted(str(value))} is not a whole number")
    return int(number)
