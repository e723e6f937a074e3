"""verl's own sender and receiver through shared memory, and a sender that changes what it sends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.first_hour.scene import CheckFailed
from experiments.first_hour.weight_transfer import MIB, check_transfer, own
from train.leftovers import SHARED


@pytest.mark.slow  # four processes, each of which imports verl
def test_tensors_arrive_and_one_larger_than_the_bucket_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    check_transfer(1, 2 * MIB, shared=True)
    said = capsys.readouterr().out
    assert "tensors that fit: 1.8 MiB arrived, bit for bit, through shared memory" in said
    assert "larger than the bucket: refused through shared memory" in said
    assert f"nothing is left in {SHARED}" in said


def test_a_sender_that_changes_a_byte_fails(tmp_path: Path) -> None:
    script = tmp_path / "bad.py"
    script.write_text(
        "import sys, torch\n"
        "from experiments.first_hour import weight_transfer as ours\n"
        "tensors = ours.tensors\n"
        "def changed(*words):\n"
        "    for name, tensor in tensors(*words):\n"
        "        if name == 'value':\n"
        "            tensor.view(torch.uint8)[-1] ^= 1\n"
        "        yield name, tensor\n"
        "ours.tensors = changed\n"
        "ours.send(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))\n"
    )

    def role(part: str, address: str, bucket: int, largest: int) -> list[str]:
        bad = [sys.executable, str(script), address, str(bucket), str(largest)]
        return bad if part == "send" else own(part, address, bucket, largest)

    with pytest.raises(CheckFailed, match=r"process 2 of 2 ended with 1: value arrived with other bits than were sent"):
        check_transfer(1, 2 * MIB, shared=True, role=role)


def test_a_refusal_is_expected_of_shared_memory_alone(tmp_path: Path) -> None:
    words = "raise SystemExit('embedding is too large to fit in the bucket')"

    def role(part: str, address: str, bucket: int, largest: int) -> list[str]:
        return [sys.executable, "-c", words if largest else "print('fine')"]

    check_transfer(1, 2 * MIB, shared=True, role=role)
    with pytest.raises(CheckFailed, match=r"is too large to fit in the bucket"):
        check_transfer(1, 2 * MIB, shared=False, role=role)


def test_what_stays_in_shared_memory_fails(tmp_path: Path) -> None:
    left = SHARED / f"verl_weights_of_{tmp_path.parent.name}_{tmp_path.name}"

    def role(part: str, address: str, bucket: int, largest: int) -> list[str]:
        return [sys.executable, "-c", f"open({str(left)!r}, 'w').close()"]

    try:
        with pytest.raises(CheckFailed, match=f"still holds {left.name}"):
            check_transfer(1, 2 * MIB, shared=True, role=role)
    finally:
        left.unlink()
