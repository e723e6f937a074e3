"""What a machine has against what a plan needs and a lock names, at the real figures of the profiles."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest

from experiments.first_hour import machine, packages
from experiments.first_hour.machine import GPU, machine_needs
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from train.gpu_memory import GIB
from train.leftovers import SHARED

Scenes = Callable[..., Scene]
LISTING = "NVIDIA H100 80GB HBM3, 81559, 4, 580.65.06"


def test_paper_needs_what_its_plan_says(scene_of: Scenes) -> None:
    needs = machine_needs(scene_of("paper", gpus=8))
    assert needs["memory"] / GIB == pytest.approx(2 * 28.4, abs=0.1)  # the reference model, and the one being loaded
    disks = sum(size for place, size in needs.items() if place not in ("memory", str(SHARED)))
    assert disks / GIB == pytest.approx(368.8 + 14.2, abs=0.1)  # checkpoints and model, and the download
    assert needs[str(SHARED)] / GIB == pytest.approx(2 + 8 * 0.4)
    assert machine_needs(scene_of("paper")) == machine_needs(scene_of("nano")) != needs  # without a GPU


def test_too_little_of_anything_fails_and_is_named(
    scene_of: Scenes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = {"memory": 1.0, "/not/there/yet": 1.0}  # of a folder that is not there yet, the disk it will be on
    monkeypatch.setattr(machine, "machine_needs", lambda scene: needs)
    machine.machine(scene_of())
    assert re.search(r"PASS memory: [\d.]+ GiB free, 0.0 MiB needed", capsys.readouterr().out)
    needs["/not/there/yet"] = 2.0**70
    with pytest.raises(CheckFailed, match=r"^/not/there/yet: [\d.]+ GiB free, [\d.]+ GiB needed by the plan$"):
        machine.machine(scene_of())


@pytest.mark.parametrize(
    ("profile", "seen", "total", "used", "says"),
    [
        ("paper", 8, 79.6, 0.0, None),
        ("single", 1, 24.0, 0.0, None),
        ("paper", 7, 79.6, 0.0, "GPUs: torch sees 7; verl.trainer.n_gpus_per_node=8"),
        ("paper", 8, 39.4, 0.0, "size: a GPU has 39.4 GiB; gpu_memory_gib=80"),
        ("paper", 8, 79.6, 30.0, "memory in use by others: 0: 30.0 GiB, 1: 30.0 GiB"),
    ],
)
def test_gpus_as_planned_pass_and_others_fail(
    scene_of: Scenes,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    seen: int,
    total: float,
    used: float,
    says: str | None,
) -> None:
    monkeypatch.setattr(machine, "list_gpus", lambda: [GPU("one", total, used, "580")] * seen)
    with pytest.raises(CheckFailed, match=f"^{says}") if says else nullcontext():
        machine.gpus(scene_of(profile, gpus=seen))


def test_gpus_that_torch_does_not_see_fail(scene_of: Scenes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "list_gpus", list)
    with pytest.raises(CannotRun, match=r"^it needs a GPU; there is none here$"):
        machine.gpus(scene_of("paper"))
    with pytest.raises(CannotRun, match=r"^it needs a GPU; PROFILE=nano uses none$"):
        machine.gpus(scene_of("nano"))
    monkeypatch.undo()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nprint({LISTING!r})\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert machine.list_gpus() == [GPU("NVIDIA H100 80GB HBM3", 81559 / 1024, 4 / 1024, "580.65.06")]
    with pytest.raises(CheckFailed, match=r"^the driver lists 1 GPUs and torch sees none"):
        machine.gpus(scene_of("paper"))


def test_versions_are_held_against_a_lock(
    scene_of: Scenes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packages, "LOCKS", tmp_path)
    lock = tmp_path / "nano.txt"
    build = f"torch=={version('torch').partition('+')[0]}"  # counts without what it is built for
    good = f"# a lock\nnumpy=={version('numpy')}\npywin32==1 ; sys_platform == 'win32'\n{build}\n"
    lock.write_text(good)
    packages.packages(scene_of())
    assert capsys.readouterr().out == "2 of 2 packages are as in nano.txt\n"
    lock.write_text(f"{good}pyyaml==1.0\nno-such-package==2\n")
    with pytest.raises(CheckFailed) as error:
        packages.packages(scene_of())
    found = f"pyyaml {version('pyyaml')} (locked==1.0), no-such-package missing (locked==2)"
    assert str(error.value) == f"not as in nano.txt: {found}; `make env` installs the lock"
