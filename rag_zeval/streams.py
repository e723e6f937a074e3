"""The standard streams while a command runs: they fail for no character, show no key, and their end stops no work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rag_zeval.secrets import scrub


class Stream:
    """A text stream around another.

    Hidden values are masked; a character that the encoding lacks is written as Python escapes it. Where writing fails,
    a pipe whose reader left or a full disk, the rest is dropped, and `fault` says why.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected text, found {type(text).__name__}")
        if self.fault is None:
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            shown = scrub(text)
            try:
                shown.encode(encoding)
            except UnicodeEncodeError:
                shown = shown.encode(encoding, "backslashreplace").decode(encoding)
            try:
                self._stream.write(shown)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.fault is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.fault = error
        with suppress(OSError, ValueError):  # what is buffered goes nowhere when Python ends and flushes again
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes would go past `write`
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[Stream]:
    """Put Streams in the places of stdout, which is given, and stderr; a closed one becomes the null device."""
    before = sys.stdout, sys.stderr
    out, err = (Stream(stream or open(os.devnull, "w", encoding="utf-8")) for stream in before)  # noqa: SIM115
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before
