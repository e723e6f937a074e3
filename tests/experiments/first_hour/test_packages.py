"""Installed versions against a lock, in this environment."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from experiments.first_hour.packages import check_versions
from experiments.first_hour.scene import CheckFailed


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text(f"# a lock\nnumpy=={version('numpy')}\npywin32==1 ; sys_platform == 'win32'\n")
    return path


def test_what_is_as_locked_passes(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_versions(lock)
    assert capsys.readouterr().out == "1 of 1 packages are as in lock.txt\n"


def test_another_version_and_a_missing_package_fail(lock: Path) -> None:
    lock.write_text(f"{lock.read_text()}pyyaml==1.0\nno-such-package==2\n")
    with pytest.raises(CheckFailed) as error:
        check_versions(lock)
    found = f"pyyaml {version('pyyaml')} (locked==1.0), no-such-package missing (locked==2)"
    assert str(error.value) == f"not as in lock.txt: {found}; `make env` installs the lock"


def test_the_version_of_a_build_counts_without_what_it_is_built_for(lock: Path) -> None:
    lock.write_text(f"torch=={version('torch').partition('+')[0]}\n")
    check_versions(lock)
