"""What the processes of a stage leave: how much memory they took, and no folder of ray."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rag_zeval.stages import memory
from rag_zeval.stages.ray_folder import ray_folder


def let_there_be(monkeypatch: pytest.MonkeyPatch, free: Iterable[int]) -> None:
    """GiB that the system can give, one look after the other."""
    looks = iter(free)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=next(looks) * 2**30))


def test_the_least_there_was_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    let_there_be(monkeypatch, [20, 9, 3, 12])
    memory_of_this = memory.Memory()
    assert memory_of_this.taken == 0
    for taken in (11, 17, 17):
        memory_of_this.look()
        assert memory_of_this.taken == taken


def test_it_is_looked_at_while_the_block_runs(monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]) -> None:
    monkeypatch.setattr(memory, "SECONDS", 0.01)
    let_there_be(monkeypatch, itertools.chain([20, 5], itertools.repeat(18)))
    with memory.watched() as memory_of_this:
        wait_until(lambda: memory_of_this.taken, 5)
    assert memory_of_this.taken == 15


def test_ray_folder_is_short_and_removed_even_after_a_kill(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with ray_folder(deep) as first:
        assert first.is_dir() and len(str(first)) < 45
    assert not first.exists()
    code = (
        f"import os, pathlib, sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from rag_zeval.stages.ray_folder import ray_folder\n"
        f"with ray_folder(pathlib.Path({str(deep)!r})) as f: print(f, flush=True); os.kill(os.getpid(), 9)"
    )
    left = Path(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip())
    assert left.is_dir()
    with ray_folder(deep) as second:
        assert second != left and not left.exists()
