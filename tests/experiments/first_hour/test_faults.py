"""Each finding of a rehearsal fails when its fault is put in, and a run that breaks says why: minutes for each.

In the environment of `make rehearse`: `.venv-vllm/bin/python -m pytest -m slow -s FILE`
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from experiments.first_hour import traces
from experiments.first_hour.checks import VARIABLES
from experiments.first_hour.processes import run_well, wait_for
from experiments.first_hour.scene import CheckFailed, read_scene
from experiments.first_hour.training import TinyTraining, check_training, prepare, tiny_run
from rag_zeval.stages.config import load_config
from rag_zeval.stages.processes import run, started
from train.launch import MODULES
from train.verl_rehearsal.notes import FILE, read_notes

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.timeout(1800)]
ENDS, TRAINS = 120, 1500  # seconds for which a run may stand still with an error, and may take
NewRun = Callable[..., TinyTraining]


@pytest.fixture
def new_run(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> NewRun:
    """A run of the rehearsal, not begun, with a fault of `faults/weight_faults.py`, which verl then loads too."""
    pytest.importorskip("vllm")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for variable, value in {**VARIABLES, "PATH": path, "PYTHONPATH": str(Path(__file__).parent / "faults")}.items():
        monkeypatch.setenv(variable, value)
    folder = tmp_path_factory.getbasetemp() / "rehearsal"  # all share one model and its answers

    def make(name: str, fault: str = "", profile: str = "paper", exact: bool = True) -> TinyTraining:
        monkeypatch.setenv(MODULES, "weight_faults" if fault else "")
        monkeypatch.setenv("FAULT", fault)
        scene = read_scene(load_config("first_hour", [f"profile={profile}", "lane=rehearsal", f"out_dir={folder}"]))
        return tiny_run(scene, name, *(scene.fp32 if exact else ()))

    return make


def failed(of: TinyTraining) -> str:
    """What its check says, all but the figures of time and memory."""
    with pytest.raises(CheckFailed) as error:
        check_training(of)
    return "; ".join(part for part in str(error.value).split("; ") if not part.startswith("it takes"))


@pytest.mark.parametrize("exact", [True, False], ids=["fp32", "own-precision"])
def test_stale_weights_are_seen(new_run: NewRun, exact: bool) -> None:
    stale = new_run(f"stale-{exact}", "stale_weights", exact=exact)
    said = failed(stale)
    assert "rollouts and training have the same weights" in said
    assert "stays lost" not in said  # they are weights, and all of them: only not the new ones
    if exact:
        assert stale.log("train").read_text().count("warning: in step ") == 1


def test_weights_that_never_come_are_seen(new_run: NewRun) -> None:
    dropped = new_run("dropped", "dropped_weights")
    prepare(dropped)

    def awake() -> bool:
        notes = read_notes(dropped.folder) if (dropped.folder / FILE).exists() else []
        return any(note["event"] == "awake" for note in notes)

    with started(dropped.command, dropped.log("train")) as training:  # what such weights write is of no interest
        wait_for("an update", awake, training, dropped.log("train"), TRAINS)
    assert not traces.nothing_stays_nan(dropped.folder).passed


def test_a_missing_adapter_is_seen(new_run: NewRun) -> None:
    said = failed(new_run("no-adapter", "missing_adapter", "single"))
    assert "LoRA adapters arrive" in said and "rollouts and training have the same weights" in said


def test_a_worker_that_raises_in_an_update_ends_the_run_which_goes_on(new_run: NewRun) -> None:
    raising = new_run("raising", "raising_update")
    prepare(raising)
    assert run(raising.command, raising.log("raised"), print, seconds=TRAINS) == 1
    assert time.time() - (raising.folder / "raised").stat().st_mtime < ENDS
    assert "the update was told to fail" in raising.log("raised").read_text().splitlines()[-1]
    assert not traces.running(raising.folder)
    run_well("the training", new_run("raising").command, raising.log("train"), TRAINS)
    assert "resuming after step 2 of 4" in raising.log("train").read_text()
    assert traces.weights_arrive(raising.folder, traces.BOUNDS["fp32"], moving=True).passed
    assert traces.steps_follow(raising.folder, 4, attempts=2).passed


def test_two_precisions_are_refused_before_anything_starts(new_run: NewRun) -> None:
    mixed = new_run("mixed", exact=False)
    other = "verl.actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32}"
    assert run([*mixed.command, other], mixed.log("train"), print, seconds=ENDS) == 2
    assert "mixed_precision.param_dtype" in mixed.log("train").read_text() and not mixed.folder.exists()


@pytest.mark.parametrize("name", ["WorkerDict", "VLLM::"], ids=["trainer", "vllm"])
def test_a_worker_that_is_killed_ends_the_run_with_its_cause(new_run: NewRun, name: str) -> None:
    dead = new_run(f"dead-{name.strip(':')}")
    prepare(dead)
    log = dead.log("train")
    with started(dead.command, log) as training:
        wait_for("step 1", lambda: traces.has_logged(dead.folder, 1), training, log, TRAINS)
        workers = [process for process in traces.running(dead.folder) if name in " ".join(_words(process))]
        workers[0].kill()
        assert training.wait(ENDS) == 1
    causes = ("ActorDiedError", "EngineDeadError", "WorkerCrashedError", "died")
    assert any(cause in log.read_text() for cause in causes)
    assert not traces.running(dead.folder)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return [process.name(), *process.cmdline()]
    return []
