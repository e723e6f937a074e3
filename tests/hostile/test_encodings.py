"""The short form: some commands in this process, and one in a process with the C locale."""

import io
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from output_encodings import ENCODINGS, UTF_8, Campaign, Ended, in_a_process, nowhere

from rag_zeval.cli import main

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


def in_this_process(line: str, mode: str, folder: Path) -> Ended:
    """A command of `rag-zeval` without the start of Python: what it would make of the encoding is done here."""
    name, _, errors = ENCODINGS.get(mode, UTF_8)["PYTHONIOENCODING"].partition(":")
    streams = [io.TextIOWrapper(io.BytesIO(), name, how) for how in (errors, "backslashreplace")]
    kept = [*streams]
    status, other = 0, nowhere(mode)
    if other is not None:
        streams["errors" in mode] = open(other, "w", encoding="utf-8")  # noqa: SIM115 (closed below)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["rag-zeval", *line.split()[1:]])
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
    for stream in kept:
        stream.flush()  # as Python does in the end
    if other is not None:
        with suppress(OSError):
            streams["errors" in mode].close()
    return Ended(status, *(stream.buffer.getvalue() for stream in kept), 0.0, 0)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    campaign = Campaign(tmp_path_factory.mktemp("encodings"), in_this_process)
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
