"""Slices: the questions of one kind, by their tag."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rag_zeval.cases.case import ALL, NO_SLICE

T = TypeVar("T")


def by_slice(items: Iterable[T], tag: Callable[[T], str | None]) -> list[tuple[str, list[T]]]:
    """All items, then those of each slice, by name; no slices where no item has a tag."""
    everything = list(items)
    slices: dict[str, list[T]] = {}
    for item in everything:
        slices.setdefault(tag(item) or NO_SLICE, []).append(item)
    return [(ALL, everything), *(sorted(slices.items()) if set(slices) != {NO_SLICE} else [])]
