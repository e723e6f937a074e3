import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from train.leftovers import MARK, SEGMENTS, SHARED, note_segments, stop_leftovers

Start = Callable[..., tuple[subprocess.Popen[str], list[str]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process, with the mark of a run or without one; it and the words of its first line.

    What is left of it and of its children is killed at the end.
    """
    started = []
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}

    def start(*command: object, run: Path | None = None, cwd: Path | None = None) -> tuple[subprocess.Popen, list[str]]:
        env = unmarked if run is None else {**unmarked, MARK: str(run)}
        process = subprocess.Popen(
            list(map(str, command)), env=env, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()

    yield start
    for process in started:
        for left in psutil.Process(process.pid).children() if process.poll() is None else []:
            left.kill()
        process.kill()
        process.communicate()


def test_leftovers_of_this_run_are_killed_and_no_others(start: Start, tmp_path: Path) -> None:
    sleeper = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
    mine, other = tmp_path / "run", tmp_path / "run2"
    started = [start(*sleeper, run=run)[0] for run in (mine, mine, other)]
    assert stop_leftovers(mine) == 2
    assert [psutil.pid_exists(process.pid) for process in started] == [False, False, True]
    assert stop_leftovers(mine) == 0


@pytest.mark.parametrize("ours", [True, False])
def test_the_daemons_of_a_cluster_that_was_started_in_the_folder_live_on(
    start: Start, tmp_path: Path, wait_until: Callable[..., None], ours: bool
) -> None:
    """Ray's agents write their name over their environment: whose they are, their raylet says."""
    shutil.copyfile("/bin/bash", tmp_path / "raylet")
    (tmp_path / "raylet").chmod(0o755)
    script = 'bash -c "exec -a ray::DashboardAgent sleep 60" & echo $!; wait'
    raylet, [pid] = start(tmp_path / "raylet", "-c", script, run=tmp_path if ours else None, cwd=tmp_path)
    agent = psutil.Process(int(pid))
    wait_until(lambda: "ray::DashboardAgent" in agent.cmdline(), 10)
    assert stop_leftovers(tmp_path) == (2 if ours else 0)
    assert (raylet.poll() is None and agent.is_running()) is not ours


def test_a_child_that_wrote_its_name_over_the_mark_is_found_by_its_parent(start: Start, tmp_path: Path) -> None:
    script = f'env -u {MARK} bash -c "exec -a VLLM::Worker sleep 60" & echo $!; wait'
    _, [pid] = start("bash", "-c", script, run=tmp_path)
    worker = psutil.Process(int(pid))
    assert stop_leftovers(tmp_path) == 2 and not worker.is_running()


needs_shared_memory = pytest.mark.skipif(not SHARED.is_dir(), reason="no /dev/shm")
SEGMENT = """
import time
from multiprocessing import get_context, resource_tracker, shared_memory
resource_tracker.register = lambda *args: None  # as vLLM leaves it: nobody removes them
segment = shared_memory.SharedMemory(create=True, size=4096)
lock = get_context("spawn").Lock()
print(segment.name, "sem." + lock._semlock.name.strip("/"), flush=True)
time.sleep(60)
"""
READER = """
import mmap, sys, time
file = open(sys.argv[1], "r+b")
mapped = mmap.mmap(file.fileno(), 0)
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def start_with_segment(start: Start) -> Iterator[Callable[[Path], tuple[subprocess.Popen[str], list[Path]]]]:
    """Starts a process of a run that has shared memory and a semaphore, which are removed at the end."""
    segments: list[Path] = []

    def start_one(run: Path) -> tuple[subprocess.Popen[str], list[Path]]:
        process, names = start(sys.executable, "-c", SEGMENT, run=run)
        own = [SHARED / name for name in names]
        segments.extend(own)
        return process, own

    yield start_one
    for path in segments:
        path.unlink(missing_ok=True)


@needs_shared_memory
@pytest.mark.parametrize("ended_before", [False, True])
def test_shared_memory_of_this_run_is_removed_and_no_others(
    start_with_segment: Callable[..., tuple], tmp_path: Path, ended_before: bool
) -> None:
    mine, other = tmp_path / "run", tmp_path / "run2"
    mine.mkdir()
    (process, segments), (_, kept) = start_with_segment(mine), start_with_segment(other)
    if ended_before:  # as at a normal end of the run, or when ray was killed before us
        note_segments(mine)
        process.kill()
        process.wait()
    stop_leftovers(mine)
    assert [path.exists() for path in segments + kept] == [False, False, True, True]
    assert not (mine / SEGMENTS).exists()


@needs_shared_memory
def test_shared_memory_that_somebody_else_still_uses_stays(
    start: Start, start_with_segment: Callable[..., tuple], tmp_path: Path
) -> None:
    _, (segment, semaphore) = start_with_segment(tmp_path)
    start(sys.executable, "-c", READER, segment)
    stop_leftovers(tmp_path)
    assert segment.exists() and not semaphore.exists()


def test_no_file_but_shared_memory_is_removed_whatever_the_runs_folder_names(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("kept")
    (tmp_path / SEGMENTS).write_text(json.dumps([str(mine), f"{SHARED}/../{mine}", 5]))
    stop_leftovers(tmp_path)
    assert mine.exists() and not (tmp_path / SEGMENTS).exists()
