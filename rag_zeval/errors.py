"""The one error a user is meant to read, and how a command ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says where and what."""


@contextmanager
def needed(package: str, by: str) -> Iterator[None]:
    """Around the import of a package that may be missing: InputError then says what needs it, and how to get it."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{by} needs the {package} package: pip install {package}") from error


def exit_status(stage: Callable[[], int]) -> int:
    """Run a stage; its exit status, or 2 after `error: …` on stderr for bad input and files, or 130 after Ctrl-C."""
    try:
        return stage()
    except (InputError, OSError) as error:  # OSError: a disk that is full, a folder one may not write to
        print("error:", *str(error).splitlines(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130
