"""A process and its children end with the caller, however that ends."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rag_zeval.stages.processes import last_line, last_lines, python_module, run, started

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
