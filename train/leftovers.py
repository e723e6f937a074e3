"""Find and remove what a run may leave behind when it ends or is killed: processes and their shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_zeval.files import read_json, write_json

if TYPE_CHECKING:
    import psutil

MARK = "RAG_ZEVAL_TRAIN"  # variable with the run folder, in the environment of verl and all processes it starts
SEGMENTS = "shared_memory.json"  # file in the run folder: the shared memory that its processes used
SHARED = Path("/dev/shm")
# Name prefixes: Python's, for communication of vLLM's workers, and verl's, for weights if CUDA cannot share them.
KINDS = ("psm_", "sem.mp-", "verl_weights_")


def stop_leftovers(out_dir: Path) -> int:
    """Kill every process with this run's mark (verl, ray's daemons and workers), and return how many there were.

    Their shared memory is removed too.

    Ray's daemons leave the process group in which they start, so the mark in their environment identifies them. Some
    overwrite it with their name (`ray::DashboardAgent`). Those are identified by that name and their working folder. In
    an existing cluster only the workers of this run have the mark, so its daemons stay alive.
    """
    import psutil

    killed = 0
    note_segments(out_dir)
    while leftovers := find_leftovers(out_dir):  # repeated, since a daemon may have started another process
        for process in leftovers:
            with suppress(psutil.Error):
                process.kill()
        killed += len(leftovers)
        _, alive = psutil.wait_procs(leftovers, timeout=10)
        if alive:
            break
    if (noted := out_dir / SEGMENTS).exists():
        ours = read_json(noted, list)
        for segment in unused(path for path in all_segments() if str(path) in ours):  # whatever else the file names
            segment.unlink(missing_ok=True)
        noted.unlink()
    return killed


def note_segments(out_dir: Path) -> None:
    """Record the shared memory that the run's processes use. After their end nothing shows whose it was."""
    noted = out_dir / SEGMENTS
    before = set(map(str, read_json(noted, list))) if noted.exists() else set()
    segments = before | {str(path) for path in segments_of(process.pid for process in find_leftovers(out_dir))}
    if segments != before:
        write_json(noted, sorted(segments))


def find_leftovers(out_dir: Path) -> list[psutil.Process]:
    """Return the run's processes and their children.

    Find all before you kill the first: when a raylet dies, its helpers can no longer be assigned to the run. Children
    are included because vLLM's workers overwrite the mark with their name too.
    """
    import psutil

    leftovers = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(out_dir) or _is_ray_in(process, out_dir):
                leftovers |= {process, *process.children(recursive=True)}
        except (psutil.Error, OSError):  # another user's process, or one that has ended
            continue
    return list(leftovers)


def _is_ray_in(process: psutil.Process, out_dir: Path) -> bool:
    if not " ".join(process.cmdline()).startswith("ray::") or process.cwd() != str(out_dir):
        return False
    parent = process.parent()
    daemon = parent.environ() if parent is not None and parent.name() == "raylet" else {}
    return not daemon or daemon.get(MARK) == str(out_dir)  # false if `ray start` started another cluster in this folder


def segments_of(pids: Iterable[int]) -> set[Path]:
    """Return the shared memory files that processes have mapped. Skips other users' processes and those that ended.

    Files are identified by inode, because a semaphore is mapped under a temporary name and renamed afterwards.
    """
    mapped = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
                if f" {SHARED}/" in line:
                    mapped.add(int(line.split()[4]))
    return {Path(entry.path) for entry in _entries() if entry.inode() in mapped}


def all_segments() -> set[Path]:
    """Return all shared memory files of vLLM and verl, of whatever run."""
    return {Path(entry.path) for entry in _entries()}


def _entries() -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir(SHARED) if entry.name.startswith(KINDS)] if SHARED.is_dir() else []


def unused(segments: Iterable[Path]) -> set[Path]:
    """Return the shared memory files that no process has mapped."""
    everybody = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return set(segments) - segments_of(everybody)
