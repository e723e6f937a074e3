"""What a terminal and a build server see of a command, and its end when it is interrupted as it starts."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rag_zeval.progress import Progress
from rag_zeval.streams import Stream, drawn, guarded
from rag_zeval.text import visible, without_commands

ROOT = Path(__file__).parents[2]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
COMMANDS = re.compile(r"(?m)^\s*::|##\w*\[")
FOREIGN = st.text(st.characters() | st.sampled_from(":#[]\n \x1b\x9b\r\u202e"))
STARTED = [  # every module that `python -m` runs as a command
    str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__main__")
    for room in ("rag_zeval", "synthesize", "train", "eval_benchmarks", "experiments")
    for path in sorted((ROOT / room).rglob("*.py"))
    if "\nif __name__" in (text := path.read_text("utf-8")) and "rag_zeval.streams" in text
]


@given(FOREIGN)
def test_no_text_is_obeyed(text: str) -> None:
    shown = without_commands(visible(text))
    assert not OBEYED.search(shown) and not COMMANDS.search(shown)
    plain = OBEYED.search(text) is None and COMMANDS.search(text) is None
    assert (shown == text) == plain


@given(FOREIGN)
def test_a_stream_shows_what_is_printed_and_rich_draws_on_it(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", said := io.StringIO())
        with guarded():
            print(text)
            Console(markup=False, highlight=False).print(text)
    assert not OBEYED.search(said.getvalue()) and not COMMANDS.search(said.getvalue())


def test_rich_keeps_its_colours_and_nothing_else_of_a_terminal() -> None:
    said = io.StringIO()
    drawn(Stream(said)).write(
        "\x1b[31mred\x1b[0m\r\x1b[2K\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\ \x07\x9b1m\x1b]0;title\x07"
    )
    shown = "\x1b[31mred\x1b[0m\r\x1b[2K\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\ \\x07\\x9b1m\\x1b]0;title\\x07"
    assert said.getvalue() == shown


def test_what_is_printed_while_bars_are_drawn_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, screen)
    with guarded(), Progress() as bars, bars.job("a \x1b[8mjob", 1) as job:
        print("note: \x1b[8mhidden\x9b1m", file=sys.stderr)
        job.advance()
    said = screen.getvalue()
    assert "━" in said and "\x1b[2K" in said  # it draws
    assert "\\x1b[8mjob" in said and "\\x1b[8mhidden\\x9b1m" in said


@pytest.mark.parametrize("module", STARTED)
def test_ctrl_c_while_a_command_starts_is_no_traceback(module: str, tmp_path: Path) -> None:
    interrupt = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n"
    for imported in ("difflib", "typer", "omegaconf"):  # whichever is first
        (tmp_path / f"{imported}.py").write_text(interrupt)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    line = [sys.executable, "-m", module, "--help"]
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, preexec_fn=_hears_ctrl_c)
    assert ended.returncode in (-2, 130) and "Traceback" not in ended.stderr, ended.stderr


@pytest.mark.parametrize("started", ["-c", "-m"])
def test_ctrl_c_is_left_alone_in_another_program(started: str, tmp_path: Path) -> None:
    program = "import rag_zeval, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text(program)  # a package is imported while argv[0] is still "-m"
    (tmp_path / "other" / "main.py").touch()
    line = [sys.executable, started, program if started == "-c" else "other.main", "rag_zeval"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    assert subprocess.check_output(line, text=True, env=environment, preexec_fn=_hears_ctrl_c) == "True\n"


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background ignores it
