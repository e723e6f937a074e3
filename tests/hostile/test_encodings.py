"""The short form: some commands in this process, and one in a process with the C locale."""

from collections.abc import Iterator
from functools import partial

import pytest
from commands import Ended, run_here
from output_encodings import Campaign, in_a_process

HERE = (
    "gate that passes",
    "gate that fails",
    "compare",
    "sample",
    "retrieval",
    "failures",
    "audit",
    "metrics",
    "consistency",
    "evaluate",
)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    campaign = Campaign(tmp_path_factory.mktemp("encodings"), partial(in_a_process, run=run_here))
    yield campaign
    campaign.close()


@pytest.mark.parametrize("mode", ["ascii", "cp1252", "nobody reads", "nobody reads errors", "full"])
def test_output_decides_no_status_and_no_file(campaign: Campaign, mode: str) -> None:
    for name in HERE:
        campaign.check(name, mode)
    assert campaign.faults == []


def test_a_process_of_its_own_ends_so_too(campaign: Campaign) -> None:
    campaign._run = in_a_process
    for mode in ("C", "nobody reads", "closed"):
        campaign.check("gate that passes", mode)
    assert campaign.faults == []


def test_a_fault_is_seen(campaign: Campaign) -> None:
    right, _ = campaign.under_utf_8("gate that fails")
    assert right.status == 1 and "≥".encode() in campaign.under_utf_8("failures")[0].out
    campaign._run = lambda *_: Ended(0, b"", b"Traceback", 0.0, 0)
    campaign.check("gate that fails", "latin-1")
    assert [fault.split(": ")[1] for fault in campaign.faults] == [
        "other statuses", "tracebacks", "other files", "other files", "silent",
    ]  # fmt: skip
