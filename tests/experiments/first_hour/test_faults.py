"""Each finding of a rehearsal fails when its fault is put in, and a run that breaks says why: minutes for each.

In the environment of `make rehearse`: `.venv-vllm/bin/python -m pytest -m slow -s FILE`
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from experiments.first_hour import evidence
from experiments.first_hour.driver import VARIABLES
from experiments.first_hour.scene import Finding, read_scene
from experiments.first_hour.training import Run, prepare, tiny_run
from rag_zeval.files import Row
from rag_zeval.stages.config import load_config
from train.launch import MODULES
from train.verl_rehearsal.notes import FILE, read_notes

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[3]
FAULTS = Path(__file__).parent / "faults"
ENDS = 120  # seconds for which a run may stand still with an error
NewRun = Callable[..., Run]


@pytest.fixture(scope="module")
def new_run(tmp_path_factory: pytest.TempPathFactory) -> NewRun:
    """A run of the rehearsal, not begun; all share one model and its answers."""
    pytest.importorskip("vllm")
    shared = tmp_path_factory.mktemp("rehearsal")

    def make(name: str, profile: str = "paper", exact: bool = True) -> Run:
        scene = read_scene(load_config("first_hour", [f"profile={profile}", "lane=rehearsal", f"out_dir={shared}"]))
        return tiny_run(scene, name, *(scene.fp32 if exact else ()))

    prepare(make("none"))
    return make


def environment(fault: str | None) -> dict[str, str]:
    """What a run is started with; a fault is one more module that verl loads."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    added = {MODULES: fault, "PYTHONPATH": str(FAULTS)} if fault else {MODULES: ""}
    return {**os.environ, **VARIABLES, "PATH": path, **added}


def begin(run: Run, fault: str | None = None) -> subprocess.Popen[str]:
    kept = {"cwd": ROOT, "env": environment(fault), "text": True}
    return subprocess.Popen(run.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kept)  # type: ignore[call-overload]


def train(run: Run, fault: str | None = None) -> tuple[int, str, str]:
    """Exit status, output and error lines of a run that is left to itself."""
    with begin(run, fault) as stage:
        output, errors = stage.communicate()
    return stage.returncode, output, errors


def noted(run: Run) -> list[Row]:
    return read_notes(run.folder) if (run.folder / FILE).exists() else []


def arrive(run: Run) -> Finding:
    return evidence.weights_arrive(run.folder, evidence.BOUNDS["fp32" if run.exact else "bf16"], moving=True)


def shown(*found: Finding) -> Iterator[bool]:
    for name, passed, figure in found:
        print(f"{'PASS' if passed else 'FAIL'} {name}: {figure}")
        yield passed


@pytest.mark.parametrize("exact", [True, False], ids=["fp32", "own-precision"])
def test_stale_weights_are_seen(new_run: NewRun, exact: bool) -> None:
    run = new_run(f"stale-{exact}", exact=exact)
    code, output, errors = train(run, "stale_weights")
    assert code == 0, errors
    arrived, complete = shown(arrive(run), evidence.nothing_stays_nan(run.folder))
    assert not arrived and complete  # they are weights, and all of them: only not the new ones
    if exact:
        assert output.count("warning: in step ") == 1


def test_weights_that_never_come_are_seen(new_run: NewRun) -> None:
    run = new_run("dropped")
    with begin(run, "dropped_weights") as stage:
        while not any(note["event"] == "awake" for note in noted(run)):
            assert stage.poll() is None
            time.sleep(0.5)
        stage.terminate()  # what such weights write is of no interest
        stage.communicate()
    assert list(shown(evidence.nothing_stays_nan(run.folder))) == [False]


def test_a_missing_adapter_is_seen(new_run: NewRun) -> None:
    run = new_run("no-adapter", "single")
    train(run, "missing_adapter")
    assert not any(shown(evidence.adapters_arrive(run.folder), arrive(run)))


def test_a_worker_that_raises_in_an_update_ends_the_run_which_goes_on(new_run: NewRun) -> None:
    run = new_run("raising")
    with begin(run, "raising_update") as stage:
        while not (run.folder / "raised").exists():
            assert stage.poll() is None
            time.sleep(0.5)
        raised = time.monotonic()
        errors = stage.communicate()[1]
    took = time.monotonic() - raised
    print(f"it ended {took:.0f} s after the error:\n{errors}")
    assert stage.returncode == 1 and took < ENDS
    assert "the update was told to fail" in errors.splitlines()[-1]
    assert not evidence.running(run.folder)
    code, output, errors = train(run)
    assert code == 0, errors
    assert "resuming after step 2 of 4" in output
    assert all(shown(arrive(run), evidence.steps_follow(run.folder, 4, attempts=2)))


def test_two_precisions_are_refused_before_anything_starts(new_run: NewRun) -> None:
    run = new_run("mixed", exact=False)
    other = "verl.actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32}"
    command = [*run.command, other]
    stage = subprocess.run(command, cwd=ROOT, env=environment(None), capture_output=True, text=True, check=False)
    assert stage.returncode == 2 and "mixed_precision.param_dtype" in stage.stderr
    assert not run.folder.exists()


@pytest.mark.parametrize("name", ["WorkerDict", "VLLM::"], ids=["trainer", "vllm"])
def test_a_worker_that_is_killed_ends_the_run_with_its_cause(new_run: NewRun, name: str) -> None:
    run = new_run(f"dead-{name.strip(':')}")
    with begin(run) as stage:
        while not evidence.has_logged(run.folder, 1):
            assert stage.poll() is None
            time.sleep(0.5)
        workers = [process for process in evidence.running(run.folder) if name in " ".join(_words(process))]
        assert workers
        workers[0].kill()
        killed = time.monotonic()
        errors = stage.communicate()[1]
    took = time.monotonic() - killed
    print(f"it ended {took:.0f} s after {name} was killed:\n{errors}")
    assert stage.returncode == 1 and took < ENDS
    causes = ("ActorDiedError", "EngineDeadError", "WorkerCrashedError", "died")
    assert any(cause in line for line in errors.splitlines()[1:] for cause in causes)
    assert not evidence.running(run.folder)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return [process.name(), *process.cmdline()]
    return []
