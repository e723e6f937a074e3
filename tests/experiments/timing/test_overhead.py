"""The harness beside its bare client, and its memory on many rows: the command is run as its docstring says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def overhead(*words: str) -> str:
    command = [sys.executable, "-m", "experiments.timing.overhead", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def memory(shown: str) -> int:
    found = re.search(r"peak memory of this process: (\d+) MiB", shown)
    assert found, shown
    return int(found[1])


def test_it_measures_both_sides() -> None:
    shown = overhead("128", "1")
    figure = r"\d+\.\d\d"
    sides = (
        rf"harness {figure} s, bare client {figure} s, ratio {figure}; CPU time {figure} s, {figure} s, ratio {figure}"
    )
    assert re.match(rf"128 rows: {sides}\nmedian of 1 ratios: {figure}; of CPU time: {figure}\n", shown)
    assert memory(shown) > 30


@pytest.mark.slow
def test_two_thousand_rows_take_little_longer_than_by_the_bare_client() -> None:
    found = re.search(r"of CPU time: ([\d.]+)", overhead("2000", "3"))
    assert found and float(found[1]) <= 1.2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_rows_fit_into_memory() -> None:
    assert memory(overhead("100000", "0")) < 500
