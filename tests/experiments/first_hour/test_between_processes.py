"""Processes that work together: a sum over all, and verl's sender and receiver of weights; right, wrong, too late."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.first_hour.between_processes import MIB, add_up, check_transfer, send
from experiments.first_hour.processes import call, run_together
from experiments.first_hour.scene import CheckFailed
from train.leftovers import SHARED


@pytest.mark.slow  # four processes, each of which imports verl
def test_tensors_arrive_and_one_larger_than_the_bucket_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    check_transfer(1, 2 * MIB, shared=True)
    said = capsys.readouterr().out
    assert "tensors that fit: 1.8 MiB arrived, bit for bit, through shared memory" in said
    assert "larger than the bucket: refused through shared memory" in said
    assert f"nothing is left in {SHARED}" in said


def test_a_sender_that_changes_a_byte_fails() -> None:
    bad = (
        "import torch\n"
        "from experiments.first_hour import between_processes as ours\n"
        "tensors = ours.tensors\n"
        "def changed(*words):\n"
        "    for name, tensor in tensors(*words):\n"
        "        if name == 'value':\n"
        "            tensor.view(torch.uint8)[-1] ^= 1\n"
        "        yield name, tensor\n"
        "ours.tensors = changed\n"
    )

    def role(part: Callable[..., None], **words: str | int) -> list[str]:
        return [sys.executable, "-c", f"{bad}ours.send(**{words})"] if part is send else call(part, **words)

    with pytest.raises(CheckFailed, match=r"process 2 of 2 ended with 1: value arrived with other bits than were sent"):
        check_transfer(1, 2 * MIB, shared=True, role=role)


def test_a_refusal_is_expected_of_shared_memory_alone() -> None:
    def role(part: Callable[..., None], **words: str | int) -> list[str]:
        refusal = "raise SystemExit('embedding is too large to fit in the bucket')"
        return [sys.executable, "-c", refusal if words["largest"] else "print('fine')"]

    check_transfer(1, 2 * MIB, shared=True, role=role)
    with pytest.raises(CheckFailed, match=r"is too large to fit in the bucket"):
        check_transfer(1, 2 * MIB, shared=False, role=role)


def test_what_stays_in_shared_memory_fails(tmp_path: Path) -> None:
    left = SHARED / f"verl_weights_of_{tmp_path.parent.name}_{tmp_path.name}"
    try:
        with pytest.raises(CheckFailed, match=f"^nothing is left in {SHARED}: {left.name}$"):
            check_transfer(1, 0, True, lambda part, **words: [sys.executable, "-c", f"open({str(left)!r}, 'w')"])
    finally:
        left.unlink()


def of_rank(rank: int, folder: Path) -> list[str]:
    return call(add_up, rank=rank, processes=2, meeting=str(folder / "meeting"), backend="gloo", mib=1)


def test_two_processes_add_up(tmp_path: Path) -> None:
    said = run_together([of_rank(rank, tmp_path) for rank in (0, 1)], tmp_path, 180)[0]
    assert said.startswith("the sum is right in each of 5 rounds; ") and said.endswith(" GB/s each way at best")


def test_a_process_that_counts_for_another_makes_the_sum_wrong(tmp_path: Path) -> None:
    other = (
        "import torch\n"
        "from experiments.first_hour.between_processes import add_up\n"
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
