"""Runs commands with guarded standard streams, and gives their exit status.

The streams accept every character and mask API keys. If their reader leaves, the command continues without output.
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
from rag_zeval.text import one_line, visible, without_commands

if TYPE_CHECKING:
    import typer


DRAWING = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x07\x1b]*\x1b\\|\r)")  # what rich sends to a terminal


class Stream:
    """A text stream that writes to another.

    It masks hidden values, and escapes what a terminal or a build server would obey. Characters that the encoding lacks
    become Python's backslash escapes. After a failed write (the reader of a pipe left, the disk is full) it drops all
    further text, and `fault` holds the error.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.fault: OSError | None = None

    @property
    def rich_proxied_file(self) -> Drawn:
        """The file for a `rich.Console` that writes to this stream. rich looks it up by this name."""
        return Drawn(self)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"expected text, found {type(text).__name__}")
        self.write_shown(visible(scrub(text)))
        return len(text)

    def write_shown(self, text: str) -> None:
        """Write a text that is already scrubbed, and whose controls are safe for a terminal."""
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
        with suppress(OSError, ValueError):  # Python flushes again at exit: the rest goes to the null device
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes would bypass `write`
            raise AttributeError(name)
        return getattr(self._stream, name)


class Drawn:
    """The file through which rich writes to a Stream. rich's colours, cursor moves and links stay as they are.

    Every other control character is escaped.
    """

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
    """Return the file to which rich should write for this stream, also while rich's bars have replaced the stream."""
    return cast(TextIO, getattr(stream, "rich_proxied_file", stream))


@contextmanager
def guarded() -> Iterator[Stream]:
    """Replace stdout and stderr by Streams, and yield the Stream of stdout. A closed one becomes the null device."""
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

    Bad input and failing files print `error: ...` on stderr and give 2. So does a standard output that cannot be
    written. A bug prints a traceback and gives 2, because 1 is a verdict. Ctrl-C gives 130. If only the reader of the
    output left, the stage's status is returned.
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
        except OSError as error:  # a full disk, a folder without write permission
            named = error.filename is not None and error.strerror is not None
            reason = f"{error.filename}: {error.strerror}" if named else str(error)
            print("error:", one_line(reason), file=sys.stderr)
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

    name: the program's name in the help. Raises what a command of the app raises, and KeyboardInterrupt after Ctrl-C.
    """
    try:
        app(args=words, prog_name=name)  # always ends in SystemExit, also after a usage error
    except SystemExit as stop:
        if stop.code == 130:  # typer exits so after Ctrl-C, without a message
            raise KeyboardInterrupt from stop
        return int(stop.code or 0)
    return 0


def command_line(command: Callable[..., None], module: str, about: str | None) -> Callable[..., int]:
    """Return the `main` of a module with one command. It runs the command and returns its `exit_status`.

    The function's parameters are the command's options. about: the help text; its paragraphs and list items are filled
    to the width of the terminal. `main` takes the words for the command; by default those after `python -m module`.

        main = command_line(write, "synthesize.answer_set", "Keep the answers of finished runs.")
        sys.exit(main())
    """

    def run(words: Sequence[str]) -> int:
        import typer

        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(help=re.sub(r"(?<!\n)\n(?![\n-]) *", " ", about or ""))(command)
        return run_app(app, list(words), f"python -m {module}")

    def main(words: Sequence[str] | None = None) -> int:
        return exit_status(lambda: run(sys.argv[1:] if words is None else words))

    return main
