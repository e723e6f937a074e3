"""A process and its children end with the caller, however that ends; the memory they took; ray leaves no folder."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rag_zeval.stages import memory
from rag_zeval.stages.processes import last_line, last_lines, python_module, run, started
from rag_zeval.stages.ray_folder import ray_folder

SLEEPER = "import time; time.sleep(60)"
PARENT = (
    f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); print(c.pid, flush=True)\n"
)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_are_shown_and_logged_and_the_status_is_returned(tmp_path: Path) -> None:
    log, shown = tmp_path / "logs" / "one.log", list[str]()
    code = (
        "import os, sys; print('one'); print(os.environ.get('OF_ITS_OWN')); print('two', file=sys.stderr); sys.exit(3)"
    )
    assert last_line(log) == "it said nothing"
    assert run(python(code), log, shown.append) == 3
    assert run(python(code), log, shown.append, env={"OF_ITS_OWN": "yes"}, append=True) == 3
    assert shown == ["one", "None", "two", "one", "yes", "two"] == log.read_text().splitlines()
    assert last_lines(log, 2) == ["yes", "two"]
    slow = "import sys, time\nfor part in ('a', 'b\\n', 'c'):\n    sys.stdout.write(part); time.sleep(0.5)"
    assert run(python(slow), log, shown.append) == 0 and shown[-2:] == ["ab", "c"]  # whole lines, also in pieces
    assert run(python_module("this"), log, shown.append) == 0 and "The Zen of Python" in log.read_text().splitlines()[0]


@pytest.mark.parametrize("by", ["time", "stop", "its end"])
def test_nothing_of_it_is_left(tmp_path: Path, wait_until: Callable[..., None], by: str) -> None:
    stop, children = threading.Event(), list[int]()

    def see(line: str) -> None:
        children.append(int(line))
        if by == "stop":
            stop.set()

    code = PARENT + ("" if by == "its end" else SLEEPER)
    status = run(python(code), tmp_path / "log", see, seconds=3 if by == "time" else 60, stop=stop)
    assert status == (0 if by == "its end" else None)
    wait_until(lambda: is_gone(children[0]), 20)


def test_an_error_of_the_caller_ends_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), started(python(SLEEPER), tmp_path / "log") as process:
        raise KeyboardInterrupt
    assert process.returncode == -15


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems do not tell a process of its parent's end"
)
def test_it_dies_when_its_caller_is_killed(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    code = (
        "from pathlib import Path; from rag_zeval.stages.processes import started, python_module\n"
        f"with started({python(SLEEPER)}, Path({str(tmp_path / 'log')!r})) as process:\n"
        "    print(process.pid, flush=True); process.wait()"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}) as caller:
        assert caller.stdout is not None
        child = int(caller.stdout.readline())
        caller.kill()
    wait_until(lambda: is_gone(child), 20)


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
    (other := tmp_path / "rz_mine").mkdir()
    (deep / "ray_tmp").write_text(str(other))  # no folder of ray's, whoever wrote the note
    with ray_folder(deep):
        assert other.is_dir()
