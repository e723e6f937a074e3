from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from experiments.rehearsal import memory


def let_there_be(monkeypatch: pytest.MonkeyPatch, free: Iterable[int]) -> None:
    """GiB that the system can give, one look after the other."""
    looks = iter(free)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=next(looks) * 2**30))


def test_the_least_there_was_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be(monkeypatch, [20, 9, 3, 12])
    taken = memory.Memory()
    taken.look()
    assert taken.check().passed
    taken.look()
    taken.look()
    name, passed, figure = taken.check()
    assert not passed and "16 GiB" in name and "17.0 GiB" in figure


def test_it_is_looked_at_while_the_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SECONDS", 0.01)
    let_there_be(monkeypatch, itertools.chain([20, 5], itertools.repeat(18)))
    with memory.watched() as taken:
        for _ in range(500):
            if taken.least < taken.before:
                break
            time.sleep(0.01)
    assert "15.0 GiB" in taken.check().figure
