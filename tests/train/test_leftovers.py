from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from train.leftovers import MARK, SEGMENTS, SHARED, note_segments, stop_leftovers


def test_leftovers_of_this_run_are_killed_and_no_others(tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    mine, other = tmp_path / "run", tmp_path / "run2"
    started = [
        subprocess.Popen(sleeper, env={**os.environ, MARK: str(run)}, start_new_session=True, stdout=subprocess.PIPE)
        for run in (mine, mine, other)
    ]
    try:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert stop_leftovers(mine) == 2
        assert [psutil.pid_exists(process.pid) for process in started] == [False, False, True]
        assert stop_leftovers(mine) == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_the_daemons_of_a_cluster_that_was_started_in_the_folder_live_on(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """Ray's agents write their name over their environment: whose they are, their raylet says."""
    shutil.copyfile("/bin/bash", tmp_path / "raylet")
    (tmp_path / "raylet").chmod(0o755)
    script = 'bash -c "exec -a ray::DashboardAgent sleep 60" & echo $!; wait'
    env = {name: value for name, value in os.environ.items() if name != MARK}
    marks = {"another's": env, "ours": {**env, MARK: str(tmp_path)}}
    for whose, env in marks.items():
        raylet = subprocess.Popen([tmp_path / "raylet", "-c", script], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
        try:
            assert raylet.stdout is not None
            agent = psutil.Process(int(raylet.stdout.readline()))
            wait_until(lambda: "ray::DashboardAgent" in agent.cmdline(), 10)  # noqa: B023 (called at once)
            assert stop_leftovers(tmp_path) == (2 if whose == "ours" else 0)
            assert (raylet.poll() is None and agent.is_running()) is (whose != "ours")
        finally:
            for process in psutil.Process(raylet.pid).children() if raylet.poll() is None else []:
                process.kill()
            raylet.kill()
            raylet.communicate()


def test_a_child_that_wrote_its_name_over_the_mark_is_found_by_its_parent(tmp_path: Path) -> None:
    script = f'env -u {MARK} bash -c "exec -a VLLM::Worker sleep 60" & echo $!; wait'
    parent = subprocess.Popen(["bash", "-c", script], env={**os.environ, MARK: str(tmp_path)}, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert stop_leftovers(tmp_path) == 2 and not worker.is_running()
    finally:
        parent.kill()
        parent.communicate()


needs_shared_memory = pytest.mark.skipif(not SHARED.is_dir(), reason="no /dev/shm")
SEGMENT = """
import sys, time
from multiprocessing import get_context, resource_tracker, shared_memory
resource_tracker.register = lambda *args: None  # as vLLM leaves it: nobody removes them
segment = shared_memory.SharedMemory(create=True, size=4096)
lock = get_context("spawn").Lock()
print(segment.name, "sem." + lock._semlock.name.strip("/"), flush=True)
time.sleep(float(sys.argv[1]))
"""


def start_with_segment(run: Path, seconds: int = 60) -> tuple[subprocess.Popen[str], list[Path]]:
    """A process of the run that has shared memory and a semaphore."""
    command = [sys.executable, "-c", SEGMENT, str(seconds)]
    process = subprocess.Popen(command, env={**os.environ, MARK: str(run)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [SHARED / name for name in process.stdout.readline().split()]


@needs_shared_memory
@pytest.mark.parametrize("ended_before", [False, True])
def test_shared_memory_of_this_run_is_removed_and_no_others(tmp_path: Path, ended_before: bool) -> None:
    mine, other = tmp_path / "run", tmp_path / "run2"
    mine.mkdir()
    (process, segments), (neighbour, kept) = start_with_segment(mine), start_with_segment(other)
    try:
        if ended_before:  # as at a normal end of the run, or when ray was killed before us
            note_segments(mine)
            process.kill()
            process.wait()
        stop_leftovers(mine)
        assert [path.exists() for path in segments + kept] == [False, False, True, True]
        assert not (mine / SEGMENTS).exists()
    finally:
        for started in (process, neighbour):
            started.kill()
            started.communicate()
        for path in segments + kept:
            path.unlink(missing_ok=True)


@needs_shared_memory
def test_shared_memory_that_somebody_else_still_uses_stays(tmp_path: Path) -> None:
    process, (segment, semaphore) = start_with_segment(tmp_path)
    reader = [
        sys.executable,
        "-c",
        "import mmap, sys, time; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); "
        "print('up', flush=True); time.sleep(60)",
        str(segment),
    ]
    user = subprocess.Popen(reader, stdout=subprocess.PIPE, text=True)
    try:
        assert user.stdout is not None and user.stdout.readline() == "up\n"
        stop_leftovers(tmp_path)
        assert segment.exists() and not semaphore.exists()
    finally:
        for started in (process, user):
            started.kill()
            started.communicate()
        segment.unlink(missing_ok=True)
