"""The sum over processes: right, wrong, and with one that never comes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from experiments.first_hour.collectives import add_up, own
from experiments.first_hour.scene import CheckFailed


def test_two_processes_add_up(tmp_path: Path) -> None:
    meeting = str(tmp_path / "meeting")
    said = add_up([own(rank, 2, meeting, "gloo", 1) for rank in (0, 1)], tmp_path)
    assert said.startswith("the sum is right in each of 5 rounds; ") and said.endswith(" GB/s each way at best")


def test_a_process_that_counts_for_another_makes_the_sum_wrong(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import torch\n"
        "from experiments.first_hour.collectives import work\n"
        "full = torch.full\n"
        "torch.full = lambda shape, value, **kw: full(shape, value + 1, **kw)\n"
        f"work(1, 2, {str(tmp_path / 'meeting')!r}, 'gloo', 1)\n"
    )
    commands = [own(0, 2, str(tmp_path / "meeting"), "gloo", 1), [sys.executable, str(script)]]
    with pytest.raises(CheckFailed, match=r"the sum over 2 processes is \[4.0\], not 3"):
        add_up(commands, tmp_path)


def test_a_process_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    commands = [own(0, 2, str(tmp_path / "meeting"), "gloo", 1), [sys.executable, "-c", "import time; time.sleep(600)"]]
    begun = time.monotonic()
    with pytest.raises(CheckFailed, match=r"^processes 1, 2 of 2 had not ended after 3 s$"):
        add_up(commands, tmp_path, seconds=3)
    assert time.monotonic() - begun < 60
