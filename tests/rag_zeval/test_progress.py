"""How far a job is: lines in a log, and a bar on a terminal."""

import io
import re
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rag_zeval import progress
from rag_zeval.progress import LINE_EVERY, Progress

PACE = r"(, [\d.]+ rows/(s|min), (\d+ days?, )?[\d:]+( left)?)?(, \$1)?"
LINE = re.compile(rf"(?P<label>.+): (?P<done>\d+)/(?P<total>\d+){PACE}")


@given(st.integers(0, 5), st.lists(st.floats(0, 3 * LINE_EVERY), max_size=30), st.sampled_from(["", "$1"]))
def test_a_log_has_a_line_at_most_every_so_often_and_one_at_the_end(before: int, waits: list[float], note: str) -> None:
    file, clock = io.StringIO(), [0.0]
    at: list[tuple[float, str]] = []
    file.write = lambda text: at.append((clock[0], text)) or 0  # type: ignore[method-assign, func-returns-value]
    total = before + len(waits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        with Progress(Console(file=file)) as bars, bars.job("a [b]", total, before, note) as job:
            for wait in waits:
                clock[0] += wait
                job.advance(note)
    lines = [(seconds, text) for seconds, text in at if text != "\n"]
    found = [LINE.fullmatch(text.rstrip("\n")) for _, text in lines]
    assert all(one is not None and one["label"] == "a [b]" and int(one["total"]) == total for one in found), lines
    counts = [int(one["done"]) for one in found if one]
    assert counts == sorted(counts) and counts[-1] == total
    *often, _ = gaps = [after - before for before, after in pairwise([0.0, *(seconds for seconds, _ in lines)])]
    assert all(gap + 1e-6 >= LINE_EVERY for gap in often)
    assert all(gap <= LINE_EVERY + max(waits, default=0) + 1e-6 for gap in gaps)


@pytest.mark.parametrize(
    ("seconds", "first", "last"),
    [(3, "0.33 rows/s, 0:02:30", "0.33 rows/s, 0:02:00"), (30, "2.00 rows/min, 0:29:30", "2.00 rows/min, 0:20:00")],
)
def test_a_line_says_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, seconds: float, first: str, last: str) -> None:
    file, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Progress(Console(file=file)) as bars, bars.job("asking", 100, 40) as job:
        for _ in range(20):
            clock[0] += seconds
            job.advance("$0.10")
    lines = file.getvalue().splitlines()
    assert lines[0] == f"asking: {40 + int(LINE_EVERY / seconds)}/100, {first} left, $0.10"
    assert lines[-1] == f"asking: 60/100, {last} left, $0.10"  # it was stopped


def test_parts_of_rows_count_in_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows of four parts each, 10 s a part. All first parts come first, then all second ones, ..."""
    file, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with Progress(Console(file=file)) as bars, bars.job("judge", 30, 20) as job:
        for part in range(1, 5):
            for row in map(str, range(10)):
                clock[0] += 10
                job.advance("$1", row) if part == 4 else job.part_done(row, part / 4)
    lines = file.getvalue().splitlines()
    assert lines[0] == "judge: 20/30, 3 partly done"  # three quarters of a row tell no rate
    assert lines[1] == "judge: 20/30, 1.50 rows/min, 0:05:40 left, 6 partly done"
    assert lines[9] == "judge: 20/30, 1.50 rows/min, 0:01:40 left, 10 partly done"
    assert lines[10] == "judge: 23/30, 1.50 rows/min, 0:01:10 left, 7 partly done, $1"
    assert lines[-1] == "judge: 30/30, 1.50 rows/min, 0:06:40, $1"


def test_a_terminal_has_one_bar_and_who_comes_beside_it_writes_lines() -> None:
    screen, other = (Console(file=io.StringIO(), force_terminal=True, width=120) for _ in range(2))
    with Progress(screen) as bars, bars.job("the first [b]", 2) as job:
        job.advance("$0.10")
        with Progress(other) as beside, beside.job("the second", 1) as inner:
            inner.advance()
    shown: Any = screen.file
    lines: Any = other.file
    assert "the first [b]" in shown.getvalue() and "━" in shown.getvalue() and "1/2" in shown.getvalue()
    assert "━" not in lines.getvalue() and lines.getvalue().startswith("the second: 1/1")


def test_the_command_says_in_a_log_how_far_it_is(run: Callable[..., Any], literal_judge: Any, tmp_path: Any) -> None:
    (tmp_path / "answers.csv").write_text("question,answer,contexts\nq,A b.,A b.\nq,C d.,A b.\n")
    done = run("evaluate", "answers.csv", "--model", literal_judge.spec(), "--scorers", "rag_zeval,bleu")
    assert done.returncode == 0
    first, second = done.stderr.splitlines()[-2:]
    assert first.startswith("rag_zeval@contexts: 2/2, ") and second.startswith("bleu@contexts: 2/2, ")
