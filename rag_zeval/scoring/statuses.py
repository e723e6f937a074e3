"""Statuses of a run's answers or rows, counted for its reader: those that differ only in their numbers are one kind."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class StatusKind(NamedTuple):
    """Statuses that differ only in their numbers. first: the one that came first; same: how many are exactly it."""

    first: str
    same: int
    total: int


def status_kinds(statuses: Mapping[str, int]) -> list[StatusKind]:
    """The kinds of statuses, of which `statuses` says how many there are of each; the frequent kinds first.

    Kinds of the same size stay in the order in which they came.
    """
    kinds: dict[str, Counter[str]] = {}
    for status, count in statuses.items():
        kinds.setdefault(re.sub(r"\d+", "N", status), Counter())[status] = count
    found = [StatusKind(*next(iter(kind.items())), kind.total()) for kind in kinds.values()]
    return sorted(found, key=lambda kind: -kind.total)
