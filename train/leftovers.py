"""What a run leaves behind, however it ends: processes, and their shared memory. Both are found and removed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_zeval.files import read_json, write_json

if TYPE_CHECKING:
    import psutil

MARK = "RAG_ZEVAL_TRAIN"  # in the environment of verl and all that it starts: the run folder
SEGMENTS = "shared_memory.json"  # in the run folder: what its processes had of it
SHARED = Path("/dev/shm")
# Python's, which vLLM's workers talk through; verl's, where CUDA has none to share
KINDS = ("psm_", "sem.mp-", "verl_weights_")


def stop_leftovers(out_dir: Path) -> int:
    """Kill every process that carries this run's mark: verl, ray's daemons and workers. Returns how many there were.

    What they leave in shared memory is removed too.
    Ray's daemons leave the process group they are started in, so the mark in their environment is what finds them.
    Some write their name over it (`ray::DashboardAgent`); those are known by that name and by the folder they run in.
    In a cluster that was there before, only the workers of this run bear the mark: its daemons live on.
    """
    import psutil

    killed = 0
    note_segments(out_dir)
    while leftovers := find_leftovers(out_dir):  # a daemon may have started another since it was looked
        for process in leftovers:
            with suppress(psutil.Error):
                process.kill()
        killed += len(leftovers)
        _, alive = psutil.wait_procs(leftovers, timeout=10)
        if alive:
            break
    if (noted := out_dir / SEGMENTS).exists():
        for segment in unused(map(Path, read_json(noted, list))):
            segment.unlink(missing_ok=True)
        noted.unlink()
    return killed


def note_segments(out_dir: Path) -> None:
    """Note the shared memory of the run's processes: once they are gone, nothing says whose it was."""
    noted = out_dir / SEGMENTS
    before = set(read_json(noted, list)) if noted.exists() else set()
    segments = before | {str(path) for path in segments_of(process.pid for process in find_leftovers(out_dir))}
    if segments != before:
        write_json(noted, sorted(segments))


def find_leftovers(out_dir: Path) -> list[psutil.Process]:
    """The run's processes, all before the first is killed: a dying raylet no longer says whose its helpers are.

    With their children: vLLM's workers write their name over the mark too.
    """
    import psutil

    leftovers = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(out_dir) or _is_ray_in(process, out_dir):
                leftovers |= {process, *process.children(recursive=True)}
        except (psutil.Error, OSError):  # another user's, or gone by now
            continue
    return list(leftovers)


def _is_ray_in(process: psutil.Process, out_dir: Path) -> bool:
    if not " ".join(process.cmdline()).startswith("ray::") or process.cwd() != str(out_dir):
        return False
    parent = process.parent()
    daemon = parent.environ() if parent is not None and parent.name() == "raylet" else {}
    return not daemon or daemon.get(MARK) == str(out_dir)  # else of a cluster whose `ray start` was called in here


def segments_of(pids: Iterable[int]) -> set[Path]:
    """Those that processes have mapped now. Another user's processes, and those gone by now, have none to show.

    They are known by inode: a semaphore is mapped under a first name, which it has lost when it is linked to its own.
    """
    mapped = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
                if f" {SHARED}/" in line:
                    mapped.add(int(line.split()[4]))
    return {Path(entry.path) for entry in _entries() if entry.inode() in mapped}


def all_segments() -> set[Path]:
    """Those of vLLM and verl in shared memory now, whoever made them."""
    return {Path(entry.path) for entry in _entries()}


def _entries() -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir(SHARED) if entry.name.startswith(KINDS)] if SHARED.is_dir() else []


def unused(segments: Iterable[Path]) -> set[Path]:
    """Those that no process has mapped."""
    everybody = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return set(segments) - segments_of(everybody)
