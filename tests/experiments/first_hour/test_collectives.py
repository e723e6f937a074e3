"""The sum over processes: right, wrong, and with one that never comes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.first_hour.collectives import add_up
from experiments.first_hour.processes import call, run_together
from experiments.first_hour.scene import CheckFailed


def of_rank(rank: int, folder: Path) -> list[str]:
    return call(add_up, rank=rank, processes=2, meeting=str(folder / "meeting"), backend="gloo", mib=1)


def test_two_processes_add_up(tmp_path: Path) -> None:
    said = run_together([of_rank(rank, tmp_path) for rank in (0, 1)], tmp_path, 180)[0]
    assert said.startswith("the sum is right in each of 5 rounds; ") and said.endswith(" GB/s each way at best")


def test_a_process_that_counts_for_another_makes_the_sum_wrong(tmp_path: Path) -> None:
    other = (
        "import torch\n"
        "from experiments.first_hour.collectives import add_up\n"
        "full = torch.full\n"
        "torch.full = lambda shape, value, **kw: full(shape, value + 1, **kw)\n"
        f"add_up(1, 2, {str(tmp_path / 'meeting')!r}, 'gloo', 1)\n"
    )
    with pytest.raises(CheckFailed, match=r"the sum over 2 processes is \[4.0\], not 3"):
        run_together([of_rank(0, tmp_path), [sys.executable, "-c", other]], tmp_path, 180)


def test_a_process_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    commands = [of_rank(0, tmp_path), [sys.executable, "-c", "import time; time.sleep(600)"]]
    with pytest.raises(CheckFailed, match=r"^processes 1, 2 of 2 had not ended after 3 s$"):
        run_together(commands, tmp_path, 3)
