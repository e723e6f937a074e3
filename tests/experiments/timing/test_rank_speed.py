from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.timing import pairs, rank_speed


@pytest.mark.slow
def test_two_ranks_do_the_steps_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pairs, "SUMMARY", tmp_path / "summary.json")
    assert rank_speed.main(["--steps", "1"]) == 0
    assert "| one rank | two ranks | ratio |" in capsys.readouterr().out
    [step] = json.loads((tmp_path / "summary.json").read_text())
    assert step["ratio"] > 0 and step["difference"] == 0 and "64 of 64" in step["ran"]
