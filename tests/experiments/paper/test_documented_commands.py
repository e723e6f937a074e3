"""Every `make paper` that the docs tell a researcher to type does what it says: each is planned, none is paid for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.paper.__main__ import main
from experiments.paper.methods import TABLES

ROOT = Path(__file__).resolve().parents[3]
DOCS = "\n".join((ROOT / name).read_text() for name in ("docs/paper-tables.md", "README.md"))
TYPED = [" ".join(line.split()) for line in re.findall(r"(?:`|^ {4})(make paper\b[^`#\n]*)", DOCS, re.MULTILINE)]


def words(command: str) -> list[str]:
    """What the target gives to the stage."""
    given = dict(part.split("=", 1) for part in shlex.split(command)[2:])
    return [f"profile={given.get('PROFILE', 'nano')}", *given.get("ARGS", "").split()]


def test_each_table_has_a_command() -> None:
    tables = {
        int(number)
        for command in TYPED
        for named in re.findall(r"tables=\[([\d,]+)\]", command)
        for number in named.split(",")
    }
    assert tables == set(TABLES)


@pytest.mark.parametrize("command", sorted(set(TYPED)))
def test_a_command_is_planned(
    command: str, tmp_path: Path, write_ragchecker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(write_ragchecker(2)))
    (tmp_path / "prices.json").write_text("{}")
    asked = [word.replace("prices.json", str(tmp_path / "prices.json")) for word in words(command)]
    assert main([*asked, f"out_dir={tmp_path / 'paper'}", "dry_run=true"]) == 0
    assert not (tmp_path / "paper").exists()
