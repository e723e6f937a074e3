"""The short form of the kills and races."""

from pathlib import Path

import pytest
from killer import kills, races


@pytest.mark.parametrize(
    ("stage", "count"), [("evaluate", 6), ("bench", 2), pytest.param("synthesize", 3, marks=pytest.mark.slow)]
)
def test_a_stage_that_is_killed_and_started_again_ends_as_one_undisturbed(
    tmp_path: Path, stage: str, count: int
) -> None:
    findings = kills(stage, count, 1, tmp_path)
    assert findings.faults == []
    assert findings.counts[f"{stage} kills"] == count and findings.counts["rows compared"] > 0


def test_of_two_runs_at_once_one_is_refused_or_finds_all_done(tmp_path: Path) -> None:
    findings = races("evaluate", 2, 1, tmp_path)
    assert findings.faults == [] and findings.counts["evaluate races"] == 2
