"""The error that is written for users, with its wording for a missing package and an unknown name."""

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

EXTRAS = {  # optional package -> the extra that installs it: `pip install 'rag-zeval[...]'`
    "openai": "api",
    "torch": "local",
    "transformers": "local",
    "llguidance": "local",
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
    "pyyaml": "evaluate",
}


class InputError(ValueError):
    """The user's input is wrong. The message is one line that says where, what is wrong, and what to do."""

    @property
    def lines(self) -> list[str]:
        """The lines that a command prints. There is more than one only if several rows of a file are wrong."""
        return [" ".join(str(self).splitlines())]


@contextmanager
def needed(package: str, by: str) -> Iterator[None]:
    """Put this around the import of a package of EXTRAS. If it is missing, InputError says what to install."""
    try:
        yield
    except ImportError as error:
        raise InputError(missing(package, by)) from error


def missing(package: str, by: str) -> str:
    """Return a message that says what needs a package of EXTRAS, and how to install it."""
    return f"{by} needs the {package} package: pip install 'rag-zeval[{EXTRAS[package]}]'"


@contextmanager
def unix() -> Iterator[None]:
    """Put this around the import of a standard module that Windows lacks. InputError then says where it works."""
    try:
        yield
    except ImportError as error:
        where = f"{error.name} is missing here (on Windows use WSL)"
        raise InputError(f"RAG-Zeval runs on Linux and macOS; {where}") from error


def nearest(name: str, names: Collection[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest of `names`, or an empty string.

    A dotted name whose last parts are exactly `name` counts as the closest: `lr` finds `...optim.lr`.
    """
    inner = sorted(known for known in names if known.endswith(f".{name}"))
    close = inner or difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""
