"""The timing of the small profile's lane: what is run, what is compared, what is printed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from experiments.timing import lane_side, lane_speed
from rag_zeval.errors import InputError


def a_side(root: Path, work: dict[str, Any]) -> dict[str, Any]:
    """As `lane_speed.run`: twice as fast in bf16, and the lane of this checkout twice as fast as the other."""
    seconds = (4.0 if root == lane_speed.ROOT else 8.0) / (1 + (work["precision"] == "bf16"))
    if work["part"] == "update":
        assert [len(ids) for ids, _ in work["written"]] == [30, 30] and work["rollouts"] == 2
        assert work["advantages"] == [1.0, -1.0]
        return {"seconds": seconds, "norm": 0.5, "products": 0.4, "gib": 2.04}
    return {"seconds": seconds, "written": [([3] * 30, []) for _ in work["prompts"]], "gib": 1.0}


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two rollouts of one prompt, and nothing is run."""
    monkeypatch.setattr(lane_speed, "PROMPTS", 1)
    monkeypatch.setattr(lane_speed, "ROLLOUTS", 2)
    monkeypatch.setattr(lane_speed, "unpack_before", lambda folder: None)
    monkeypatch.setattr(lane_speed, "first_prompts", lambda n: [SimpleNamespace(ids=[5, 6])] * n)
    monkeypatch.setattr(lane_speed, "advantages_of", lambda prompts, written: [1.0, -1.0])
    monkeypatch.setattr(lane_speed, "run", a_side)
    return monkeypatch


@pytest.mark.usefixtures("sides")
def test_the_table_has_speeds_of_every_side_and_precision(capsys: pytest.CaptureFixture[str]) -> None:
    assert lane_speed.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 6 + 1 + 8  # parts and sides; how many prompts teach something; the table
    assert "the rollouts of 1 of 1 prompts have different rewards" in lines
    assert "| before | fp32 | 8 | 8 | 7.5 | 40% | 1.0 and 2.0 GiB |" in lines  # 60 tokens in 8 s, 2 rollouts in 16 s
    assert "| now | bf16 | 30 | 30 | 30.0 | 40% | 1.0 and 2.0 GiB |" in lines


def test_lanes_that_do_not_agree_are_told(sides: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    norms = iter([0.5, 0.5, 0.6, 0.5, 0.5, 0.5])  # of plain, before and now in fp32, then in bf16

    def a_run(root: Path, work: dict[str, Any]) -> dict[str, Any]:
        return {**a_side(root, work), **({"norm": next(norms)} if work["part"] == "update" else {})}

    sides.setattr(lane_speed, "run", a_run)
    assert lane_speed.main([]) == 1
    assert "do not agree" in capsys.readouterr().out


def test_without_the_commit_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_speed, "ROOT", tmp_path)
    with pytest.raises(InputError, match=r"git fetch --unshallow"):
        lane_speed.unpack_before(tmp_path)


def test_products_are_told_from_the_rest() -> None:
    one = torch.randn(200, 200)
    assert lane_side.in_products(lambda: [one @ one for _ in range(50)]) > 0.5
    assert lane_side.in_products(one.exp) == 0
