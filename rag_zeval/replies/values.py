"""Checks single values of a judge's JSON. Each function raises Unreadable for a value of another kind."""

from collections.abc import Sequence
from typing import Any

from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import quoted


def a_text(value: Any) -> str:
    """A string that is not blank, without surrounding white space."""
    if not isinstance(value, str) or not value.strip():
        raise Unreadable(f"{quoted(str(value))} is not a text")
    return value.strip()


def a_list(value: Any, length: int | None = None) -> Sequence[Any]:
    """A list, with exactly this length if one is given."""
    if not isinstance(value, list):
        raise Unreadable(f"{quoted(str(value))} is not a list")
    if length is not None and len(value) != length:
        raise Unreadable(f"got {len(value)} judgement{'s' * (len(value) != 1)}, expected {length}")
    return value


def yes_or_no(value: Any) -> bool:
    """A verdict: true or false, 1 or 0, "yes" or "no"; numbers and booleans also as text."""
    if isinstance(value, str):
        value = {"1": 1, "true": 1, "yes": 1, "0": 0, "false": 0, "no": 0}.get(value.strip().lower(), value)
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise Unreadable(f"{quoted(str(value))} is neither 1 nor 0")
    return bool(value)


def one_of(value: Any, labels: Sequence[str]) -> str:
    """One of the labels; case does not matter."""
    known = {label.lower(): label for label in labels}
    label = known.get(value.strip().lower()) if isinstance(value, str) else None
    if label is None:
        raise Unreadable(f"{quoted(str(value))} is not one of {', '.join(labels)}")
    return label


def a_number(value: Any, low: float, high: float) -> float:
    """A number in [low, high], also as text."""
    if isinstance(value, str):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Unreadable(f"{quoted(str(value))} is not a number from {low:g} to {high:g}")
    return float(value)


def a_whole_number(value: Any, low: int, high: int) -> int:
    """An integer in [low, high], also as text."""
    number = a_number(value, low, high)
    if not number.is_integer():
        raise Unreadable(f"{quoted(str(value))} is not a whole number")
    return int(number)
