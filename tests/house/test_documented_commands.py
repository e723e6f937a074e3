"""Every command in README.md and docs/*.md can be typed: its options, keys, targets and scorers exist.

Commands are collected, never listed here. `make` is asked what it would run, so its ARGS are checked as the stage's own
words. Nothing is started but `make --dry-run`. What a command runs must also be run by some test, on data of its own.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
import typer
from markdown_it import MarkdownIt

from rag_zeval import streams
from rag_zeval.cli import app
from rag_zeval.errors import InputError
from rag_zeval.scorers.registry import SCORERS
from rag_zeval.stages.config import load_config

ROOT = Path(__file__).resolve().parents[2]
OTHER_LANGUAGES = ("python", "json")
LEAST = {"make": 2, "rag-zeval": 3, "python": 4}  # words; within a sentence fewer are a command's name
SPLIT = ("&", "&&", "|", "||", ";", ">", ">>", "2>&1")
MAKE_READS = set(re.findall(r"\b[A-Z][A-Z_]+\b", (ROOT / "Makefile").read_text()))
TOOLS = ("mypy", "pip", "pytest", "ruff", "venv")  # their options are not ours to check
USAGE = (
    typer.BadParameter.__base__ or Exception
)  # UsageError: typer brings a click of its own, or takes the installed one


class Command(NamedTuple):
    """A command of a page: its words, without variables before it and what follows a pipe."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def lines_of(text: str) -> Iterator[str]:
    """The lines of the blocks, those that end in a backslash joined with the next, and the code within sentences."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "code_block" or (token.type == "fence" and token.info not in OTHER_LANGUAGES):
            yield from re.sub(r"\\\n\s*", " ", token.content).splitlines()
        for part in token.children or ():
            if part.type == "code_inline" and any(len(words) >= LEAST[words[0]] for words in commands_of(part.content)):
                yield part.content


def commands_of(line: str) -> Iterator[tuple[str, ...]]:
    """The commands of ours in a line: `rag-zeval ...`, `make ...`, `python -m ...`, wherever they are installed."""
    line = re.sub(r"^\s*(\$ |- )?(run: )?", "", re.sub(r"\s+#\s.*$", "", line))
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        tokens = list(lexer)
    except ValueError:  # prose or output with a single quotation mark
        return
    word: list[str] = []
    for token in [*tokens, ";"]:
        if token not in SPLIT:
            word.append(token)
            continue
        while word and re.match(r"[A-Z_]+=", word[0]):
            del word[0]
        if word:
            program = re.sub(r"^\.venv[\w-]*/bin/", "", word[0])
            pairs = pairwise(word)  # `...` stands for an option's value, or for more words
            arguments = tuple(one for before, one in pairs if one != "..." or before.startswith("--"))
            if program == "make":  # `$NAME` in its words stands for what the page says elsewhere
                arguments = tuple(re.sub(r"\$[A-Z]\w*", "", one) for one in arguments)
            if program in ("rag-zeval", "make") or (re.match(r"python3?$", program) and arguments[:1] == ("-m",)):
                yield (program.removesuffix("3"), *arguments)
        word = []


def collected() -> list[Command]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages.remove(ROOT / "docs" / "upgrading.md")  # it names what is gone
    found = [
        Command(page.relative_to(ROOT).as_posix(), words)
        for page in pages
        for line in lines_of(page.read_text(encoding="utf-8"))
        for words in commands_of(line)
    ]
    return list(dict.fromkeys(found))


COMMANDS = collected()


@cache
def planned(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The commands of ours that `make` would run, for a machine whose environment is there."""
    ours = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PROFILE", "ARGS", "DRY_RUN", "VENV", "PYTHON", "PIP_ARGS", "MODEL")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    line = ["make", "--no-print-directory", "--dry-run", *words]
    made = subprocess.run(line, cwd=ROOT, env=clean, capture_output=True, text=True)
    if made.returncode:
        raise InputError(made.stderr.strip())
    text = re.sub(r"\\\n\s*", " ", made.stdout)
    return tuple(command for one in text.splitlines() for command in commands_of(one))


def check_make(words: tuple[str, ...]) -> None:
    for name in (word.partition("=")[0] for word in words if re.match(r"\w+=", word)):
        if name not in MAKE_READS:
            raise InputError(f"the Makefile reads no {name}")
    for command in planned(words):
        check(command)


def check_rag_zeval(words: tuple[str, ...]) -> None:
    group: Any = typer.main.get_command(app)
    name, *arguments = words
    if name.startswith("-"):
        group.make_context("rag-zeval", [*words], resilient_parsing=True)
        return
    if name not in group.commands:
        raise InputError(f"rag-zeval has no command '{name}'")
    context = group.commands[name].make_context(name, arguments)
    asked = (context.params.get("scorers") or "").split(",")
    if unknown := [scorer for scorer in asked if scorer and scorer not in SCORERS]:
        raise InputError(f"there is no scorer {', '.join(unknown)}")


class Parsed(BaseException):
    """The command line is good, and what would follow is not run."""


def check_module(module: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if module in TOOLS:
        return
    if module == "rag_zeval":
        check_rag_zeval(words)
        return
    path = ROOT.joinpath(*module.split("."))
    path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        raise InputError(f"there is no module {module}")
    source = path.read_text(encoding="utf-8")
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    if "run_app(" in source or "command_line(" in source:

        def parse_words(commands: Any, given: Any, name: str) -> NoReturn:
            typer.main.get_command(commands).make_context(name, [*given])
            raise Parsed

        monkeypatch.setattr(streams, "exit_status", lambda stage: stage())
        for caller in (streams, import_module(dotted)):
            monkeypatch.setattr(caller, "run_app", parse_words, raising=False)
        with pytest.raises(Parsed):
            import_module(dotted).main(list(words))
    else:
        [stage, *_] = re.findall(r"(?:load_config|stage_main)\(\"(\w+)\"", source)
        load_config(stage, words)


@cache
def check(words: tuple[str, ...]) -> None:
    """Raise InputError, or what the command's own parser raises, for a command that nobody can type."""
    if words[0] == "make":
        check_make(words[1:])
    elif words[0] == "rag-zeval":
        check_rag_zeval(words[1:])
    elif words[3:] != ("--help",):
        with pytest.MonkeyPatch.context() as monkeypatch:
            check_module(words[2], words[3:], monkeypatch)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_documented_command_can_be_typed(command: Command) -> None:
    check(command.words)


def test_commands_are_collected_from_every_kind_of_block() -> None:
    page = """
Text with `make one`.

    $ make one ARGS="a=1 b=[2]"   # why
    answers A: 3
    FOO=1 .venv/bin/rag-zeval two FILE#B \\
      --html x.html > log && make three &

```yaml
      - run: rag-zeval four "$JUDGE"
```

```python
make = "five"
```

Here `rag-zeval evaluate` is a name, and `make train ARGS="a=1"` a command.

- a list

      .venv-gpu/bin/python -m six ...
"""
    assert [words for line in lines_of(page) for words in commands_of(line)] == [
        ("make", "one"),
        ("make", "one", "ARGS=a=1 b=[2]"),
        ("rag-zeval", "two", "FILE#B", "--html", "x.html"),
        ("make", "three"),
        ("rag-zeval", "four", "$JUDGE"),
        ("make", "train", "ARGS=a=1"),
        ("python", "-m", "six"),
    ]
    assert len(COMMANDS) > 50 and {one.page for one in COMMANDS} >= {"README.md", "docs/evaluate.md"}


@pytest.mark.parametrize(
    "line",
    [
        "make no-such-target",
        "make train PROFILE=no-such",
        'make train ARGS="no_such_key=1"',
        "make train NO_SUCH=1",
        "rag-zeval version",
        "rag-zeval evaluate answers.csv --no-such-option",
        "rag-zeval evaluate answers.csv --scorers no_such",
        "rag-zeval compare",
        "python -m no.such",
        "python -m eval_benchmarks.compare runs/bench only-one",
        "python -m experiments.timing.step_speed --no-such",
    ],
)
def test_a_command_that_nobody_can_type_is_found(line: str) -> None:
    [words] = commands_of(line)
    with pytest.raises((InputError, USAGE, SystemExit)):
        check(words)


def parts(words: tuple[str, ...]) -> Iterator[str]:
    """`rag-zeval evaluate` or `python -m train` of all that a command runs."""
    if words[0] == "make":
        for command in planned(words[1:]):
            yield from parts(command)
    elif words[0] == "rag-zeval":
        yield f"rag-zeval {words[1]}"
    elif words[2] == "rag_zeval":
        yield f"rag-zeval {words[3]}"
    elif words[2] not in TOOLS:
        yield f"python -m {words[2]}"


@cache
def run_by(part: str) -> list[str]:
    """The test files that run a part: by its module, or by the command's name. To ask for --help is not to run."""
    program, name = part.rsplit(maxsplit=1)
    if program == "rag-zeval":
        found = rf"[\"']{name}[\"']|rag-zeval {name}\b"
    else:
        dotted = re.escape(name)
        found = rf"-m\"?,? \"?{dotted}(?![.\w])|from {dotted}(\.__main__)? import "
        if "." in name:
            above, last = map(re.escape, name.rsplit(".", 1))
            found += rf"|from {above} import [^\n]*\b{last}\b"
    files = [*(ROOT / "tests").rglob("*.py"), ROOT / ".ci" / "run"]
    helps = ("test_import_rules.py", "test_documented_commands.py")
    return sorted(
        path.relative_to(ROOT).as_posix() for path in files if path.name not in helps and re.search(found, text(path))
    )


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_what_the_pages_tell_people_to_run_is_run_by_a_test() -> None:
    unrun = {}
    for command in COMMANDS:
        for part in parts(command.words):
            if not run_by(part):
                unrun[part] = str(command)
    assert not unrun, "no test runs these"
    assert not run_by("python -m no.such") and not run_by("rag-zeval no-such-command")
