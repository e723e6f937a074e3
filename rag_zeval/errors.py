"""The one error a user is meant to read, and how a command ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rag_zeval.secrets import hide_environment, hide_words
from rag_zeval.streams import guarded


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says where and what."""

    @property
    def lines(self) -> list[str]:
        """What a command prints of it; several lines only where several rows of a file are wrong."""
        return [" ".join(str(self).splitlines())]


@contextmanager
def needed(package: str, by: str) -> Iterator[None]:
    """Around the import of a package that may be missing: InputError then says what needs it, and how to get it."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{by} needs the {package} package: pip install {package}") from error


def exit_status(stage: Callable[[], int]) -> int:
    """Run a stage; its exit status, with the standard streams guarded (`rag_zeval.streams`).

    2 after `error: ...` on stderr for bad input, files, and a standard output that cannot be written; 2 after a
    traceback for a bug, since 1 is a verdict; 130 after Ctrl-C. A reader of the output who left changes no status.
    """
    hide_environment()
    hide_words(sys.argv[1:])
    with guarded() as out:
        try:
            status, stop = _run(stage), None
        except SystemExit as error:
            status, stop = 0, error
        out.flush()
        if out.fault is not None and not isinstance(out.fault, BrokenPipeError):
            print(f"error: standard output: {out.fault.strerror}", file=sys.stderr)
            return 2
        if stop is not None:
            raise stop
        return status


def _run(stage: Callable[[], int]) -> int:
    try:
        return stage()
    except InputError as error:
        for line in error.lines:
            print("error:", line, file=sys.stderr)
        return 2
    except OSError as error:  # a disk that is full, a folder one may not write to
        print("error:", *str(error).splitlines(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return 2
