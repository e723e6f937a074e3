"""Reads each file in a process of its own, with a limit on time and memory.

One server process is started. It forks another process for each file. The kernel ends that process when its time is up,
whatever it is doing, and gives it no more memory than the limit. So a broken file cannot disturb the reading of others.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from rag_zeval.documents.formats import SUFFIXES
from rag_zeval.errors import InputError, unix
from rag_zeval.judge.words import WORD
from rag_zeval.text import one_line

with unix():
    import resource

SECONDS = 60.0  # for one file
MEMORY_GIB = 1.0  # memory of a process that reads a file
CHARACTERS = 20_000_000  # at most, in one file's text
READ, NO_MEMORY, FAILED = range(3)  # exit statuses of a process that reads a file
FileText = dict[str, Any]  # "text" and "doubts" of a file that was read, otherwise "left_out": the reason


def read_files(files: Iterable[tuple[str, str]]) -> Iterator[FileText]:
    """Read files and yield their texts, in the order of the files.

    files: for each file, a path without links, and the suffix that says its format. Raises InputError if the server
    process ends early.
    """
    code = f"import sys; sys.path[:] = {sys.path!r}; from rag_zeval.documents.bounded import _serve; _serve()"
    # -I: Python imports nothing from the current folder, which may be a folder of documents.
    line = [sys.executable, "-I", "-W", "ignore", "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, start_new_session=True) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            for path, suffix in files:
                server.stdin.write(json.dumps([path, suffix, SECONDS, MEMORY_GIB]).encode() + b"\n")
                server.stdin.flush()
                outcome = server.stdout.readline()
                if not outcome.endswith(b"\n"):
                    raise InputError(f"{path}: the process that reads documents has ended")
                yield json.loads(outcome)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def _serve() -> None:
    """Read the files that stdin names, one a line, and write a line to stdout for each."""
    with suppress(ImportError):  # once, not in each fork; the caller checks whether it is needed
        import pypdf  # noqa: F401
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(_forked(*json.loads(line)) + b"\n")
        sys.stdout.buffer.flush()


def _forked(path: str, suffix: str, seconds: float, memory_gib: float) -> bytes:
    readable, writable = os.pipe()
    if not (reader := os.fork()):
        try:
            _bound(seconds, memory_gib)
            outcome = json.dumps(_outcome(path, suffix), ensure_ascii=False).encode()
            with open(writable, "wb") as pipe:
                pipe.write(outcome)
            os._exit(READ)
        except MemoryError:
            os._exit(NO_MEMORY)
        finally:
            os._exit(FAILED)
    os.close(writable)
    with open(readable, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    if status == READ:
        return said
    reasons = {
        NO_MEMORY: f"needs more than {memory_gib:g} GiB of memory to read",
        FAILED: "makes its reader fail",
        -signal.SIGALRM: f"takes more than {seconds:g} seconds to read",
    }
    return json.dumps({"left_out": reasons.get(status, f"makes its reader end by signal {-status}")}).encode()


def _bound(seconds: float, memory_gib: float) -> None:
    """Have the kernel end this process after `seconds`, and limit its memory."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    size, (_, most) = int(memory_gib * (1 << 30)), resource.getrlimit(resource.RLIMIT_AS)
    with suppress(ValueError, OSError):  # systems without this limit (macOS) bound only the time
        resource.setrlimit(resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else min(size, most), most))


def _outcome(path: str, suffix: str) -> FileText:
    try:
        text, doubts = SUFFIXES[suffix](_content(path))
        if WORD.search(text) is None:
            raise InputError("no text in it")
        if len(text) > CHARACTERS:
            raise InputError(f"has {len(text):,} characters of text, more than {CHARACTERS:,}: split it")
    except MemoryError:
        raise
    except InputError as error:
        return {"left_out": one_line(str(error))}
    except Exception as error:  # for a broken file, its parser may raise anything
        return {"left_out": f"{type(error).__name__}: {one_line(str(error))}"}
    return {"text": text, "doubts": [one_line(doubt) for doubt in doubts]}


def _content(path: str) -> bytes:
    # NONBLOCK: if the file has meanwhile become a pipe, do not wait for it; it is rejected below.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError("is not a regular file")
        return file.read()
