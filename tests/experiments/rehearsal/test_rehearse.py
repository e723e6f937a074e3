"""The rehearsals themselves, in the environment of `make rehearse`; each takes some ten minutes and both cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.rehearsal.__main__ import main
from experiments.rehearsal.rehearse import MARK
from rag_zeval.files import read_json

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("profile", ["paper", "single"])
def test_a_profile_is_rehearsed_and_passes(profile: str, tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    assert main([f"profile={profile}", f"out_dir={tmp_path / profile}"]) == 0
    checks = read_json(tmp_path / profile / MARK)
    assert len(checks) >= 15 and all(check["passed"] for check in checks)
