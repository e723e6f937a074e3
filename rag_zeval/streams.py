"""How a command runs, and its exit status.

Its standard streams accept every character and mask keys. If their reader leaves, the command goes on without them.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from rag_zeval.errors import InputError
from rag_zeval.secrets import hide_environment, hide_words, scrub
from rag_zeval.text import visible, without_commands

if TYPE_CHECKING:
    import typer


DRAWING = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x07\x1b]*\x1b\\|\r)")  # what rich sends to a terminal


class Stream:
    """A text stream that writes to another.

    It masks hidden values, escapes what a terminal or a build server would obey, and characters that the encoding lacks
    as Python does. After a failed write (the reader of a pipe left, the disk is full) it drops all further text, and
    `fault` holds the error.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.fault: OSError | None = None

    @property
    def rich_proxied_file(self) -> Drawn:
        """Where a `rich.Console` writes that is to write to this stream: rich looks for a file under this name."""
        return Drawn(self)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected text, found {type(text).__name__}")
        self.write_shown(visible(scrub(text)))
        return len(text)

    def write_shown(self, text: str) -> None:
        """Write a text that has been scrubbed, and holds no control that a terminal should not obey."""
        if self.fault is None:
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            shown = without_commands(text).encode(encoding, "backslashreplace").decode(encoding)
            try:
                self._stream.write(shown)
            except OSError as error:
                self._give_up(error)

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


class Drawn:
    """What rich writes for a Stream: it may colour, move and link, as rich does; every other control is escaped."""

    def __init__(self, stream: Stream):
        self._stream = stream

    def write(self, text: str) -> int:
        parts = DRAWING.split(scrub(text))  # text, a control of rich, text, ...
        parts[::2] = map(visible, parts[::2])
        self._stream.write_shown("".join(parts))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def drawn(stream: TextIO) -> TextIO:
    """Where rich is to write to show something on this stream, also while its bars have taken the stream's place."""
    return cast(TextIO, getattr(stream, "rich_proxied_file", stream))


@contextmanager
def guarded() -> Iterator[Stream]:
    """Replace stdout and stderr by Streams, and yield that of stdout. A closed one becomes the null device."""
    before = sys.stdout, sys.stderr
    out, err = (Stream(stream or open(os.devnull, "w", encoding="utf-8")) for stream in before)  # noqa: SIM115
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


def exit_status(stage: Callable[[], int]) -> int:
    """Run a stage with guarded standard streams, and return its exit status.

    It is 2 after `error: ...` on stderr for bad input, for files, and for a standard output that cannot be written. It
    is 2 after a traceback for a bug, since 1 is a verdict, and 130 after Ctrl-C. If the reader of the output left, the
    status stays as it is.
    """
    with guarded() as out:
        status = 2
        stop: SystemExit | None = None
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see rag_zeval/__init__.py
                signal.signal(signal.SIGINT, signal.default_int_handler)
            hide_environment()
            hide_words(sys.argv[1:])
            status = stage()
        except SystemExit as error:
            stop = error
        except InputError as error:
            for line in error.lines:
                print("error:", line, file=sys.stderr)
        except OSError as error:  # a disk that is full, a folder one may not write to
            print("error:", *str(error).splitlines(), file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted: run the same command again to resume", file=sys.stderr)
            status = 130
        except Exception:
            traceback.print_exc()
        out.flush()
        if out.fault is not None and not isinstance(out.fault, BrokenPipeError):
            print(f"error: standard output: {out.fault.strerror}", file=sys.stderr)
            return 2
        if stop is not None:
            raise stop
        return status


def run_app(app: typer.Typer, words: Sequence[str] | None = None, name: str | None = None) -> int:
    """Run a typer app on these words, by default those of the command line, and return its exit status.

    name: what the help calls the program. Raises what a command of the app raises, and KeyboardInterrupt.
    """
    try:
        app(args=words, prog_name=name)  # ends in SystemExit, of bad usage as well
    except SystemExit as stop:
        if stop.code == 130:  # what typer makes of Ctrl-C, without a word
            raise KeyboardInterrupt from stop
        return int(stop.code or 0)
    return 0


def run_command(command: Callable[..., None], words: Sequence[str], module: str, about: str | None) -> int:
    """Run a function on the words after `python -m module`, as `run_app` does; its parameters are its options.

    about: the help text. Its paragraphs and list items are filled to the width of the terminal.
    """
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=re.sub(r"(?<!\n)\n(?![\n-]) *", " ", about or ""))(command)
    return run_app(app, list(words), f"python -m {module}")


def command_line(command: Callable[..., None], module: str, about: str | None) -> Callable[..., int]:
    """The `main` of a module with one command: `run_command` on the words that it is given, else on those after
    `python -m module`. It returns the command's `exit_status`.

        main = command_line(write, "synthesize.answer_set", "Keep the answers of finished runs.")
        sys.exit(main())
    """

    def main(words: Sequence[str] | None = None) -> int:
        return exit_status(lambda: run_command(command, sys.argv[1:] if words is None else words, module, about))

    return main
