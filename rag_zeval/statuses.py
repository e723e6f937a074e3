"""Counts the statuses of a run's answers or rows for display. Those that differ only in their numbers are one kind."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class StatusKind(NamedTuple):
    """Statuses that differ only in their numbers. first: the one that came first. same: how many equal it exactly."""

    first: str
    same: int
    total: int


def status_kinds(statuses: Mapping[str, int]) -> list[StatusKind]:
    """Return the kinds of statuses, the most frequent first. `statuses` holds the count of each status.

    Kinds of the same size keep the order in which they came.
    """
    kinds: dict[str, Counter[str]] = {}
    for status, count in statuses.items():
        kinds.setdefault(re.sub(r"\d+", "N", status), Counter())[status] = count
    found = [StatusKind(*next(iter(kind.items())), kind.total()) for kind in kinds.values()]
    return sorted(found, key=lambda kind: -kind.total)
