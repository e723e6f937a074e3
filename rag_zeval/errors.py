"""The one error a user is meant to read, and how a command ends."""

from __future__ import annotations

import difflib
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rag_zeval.secrets import hide_environment, hide_words
from rag_zeval.streams import guarded

if TYPE_CHECKING:
    import typer

EXTRAS = {  # of `pip install 'rag-zeval[...]'`: the one that brings each package which the core does without
    "openai": "api",
    "torch": "local",
    "transformers": "local",
    "vllm": "vllm",
    "ir-measures": "scorers",
    "nltk": "scorers",
    "rouge-score": "scorers",
    "sacrebleu": "scorers",
    "scipy": "scorers",
    "charset-normalizer": "evaluate",
    "matplotlib": "evaluate",
    "pandas": "evaluate",
    "pyarrow": "evaluate",
    "pypdf": "evaluate",
    "python-calamine": "evaluate",
    "python-jsonpath": "evaluate",
}


class InputError(ValueError):
    """Something the user gave is wrong; the message is one line that says where and what."""

    @property
    def lines(self) -> list[str]:
        """What a command prints of it; several lines only where several rows of a file are wrong."""
        return [" ".join(str(self).splitlines())]


@contextmanager
def needed(package: str, by: str) -> Iterator[None]:
    """Around the import of a package of EXTRAS: if it is missing, InputError says what needs it and what to install."""
    try:
        yield
    except ImportError as error:
        raise InputError(missing(package, by)) from error


def missing(package: str, by: str) -> str:
    """The line that says what needs a package of EXTRAS, and how to install it."""
    return f"{by} needs the {package} package: pip install 'rag-zeval[{EXTRAS[package]}]'"


@contextmanager
def unix() -> Iterator[None]:
    """Around the import of a module of Python's that Windows lacks: InputError then says which systems there are."""
    try:
        yield
    except ImportError as error:
        where = f"{error.name} is missing here (on Windows use WSL)"
        raise InputError(f"RAG-Zeval runs on Linux and macOS; {where}") from error


def nearest(name: str, names: Collection[str]) -> str:
    """` (did you mean 'x'?)` for the closest of `names`, or an empty string.

    A dotted name that ends in the whole of `name` is closest of all: `lr` means `...optim.lr`.
    """
    inner = sorted(known for known in names if known.endswith(f".{name}"))
    close = inner or difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


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
        print("interrupted: run the same command again to resume", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return 2


def run_app(app: typer.Typer, words: Sequence[str] | None = None, name: str | None = None) -> int:
    """Run an app of typer on these words, by default those of the command line; its exit status.

    name: of the program, as its help shows it. Raises what a command of the app raises, and KeyboardInterrupt.
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
