from pathlib import Path

import pytest

from train.watch import Watch, names_error

STEP = {"timing_s/step": 200.0, "timing_s/testing": 10.0}
RAISED = b"\x1b[36m(Server pid=1)\x1b[0m (Worker pid=2) CUDA\n\x1b[36m(WorkerDict pid=3)\x1b[0m RuntimeError: no room\n"


class Run:
    """A log, and a clock that goes on when it is told to."""

    def __init__(self, folder: Path):
        self.log, self.now = folder / "verl.log", 0.0
        self.log.write_bytes(b"ValueError: of an attempt before\n")
        self.watch = Watch(self.log, lambda: self.now)

    def write(self, text: bytes) -> None:
        with open(self.log, "ab") as log:
            log.write(text)

    def silent_for(self, seconds: float) -> bool:
        self.watch.silence()
        self.now += seconds
        return self.watch.silence() is not None


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


SHORT = {"timing_s/step": 2.0}
WORKER = b"(Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000] WorkerProc hit an exception.\n"


@pytest.mark.parametrize(
    ("steps", "written", "patience"),
    [
        ([], b"", 1800),
        ([], RAISED, 600),
        ([STEP], b"", 2100),
        ([STEP], RAISED, 630),
        ([SHORT], RAISED, 60),
        ([STEP], WORKER, 60),  # a worker of vLLM raised: nobody may be told, however long the steps are
    ],
)
def test_more_silence_than_a_healthy_run_has(
    run: Run, steps: list[dict[str, float]], written: bytes, patience: float
) -> None:
    for step in steps:
        run.watch.step(step)
    run.write(written)
    assert not run.silent_for(patience - 1)
    assert run.silent_for(2)


def test_a_line_or_a_step_ends_the_silence(run: Run) -> None:
    run.watch.step(SHORT)
    run.write(RAISED)
    assert not run.silent_for(50)
    run.write(b"still here\n")
    assert not run.silent_for(50)
    run.watch.step(SHORT)  # the error did not stop it
    assert not run.silent_for(300)


def test_an_error_is_seen_when_its_line_has_ended(run: Run) -> None:
    run.watch.step(SHORT)
    run.write(RAISED[:-9])
    assert not run.silent_for(300)
    run.write(RAISED[-9:])
    assert run.silent_for(61)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m ray.exceptions.RayTaskError(ValueError): oh", True),
        ("(Server pid=1) (Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000] RuntimeError: no room", True),
        ("(Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000]     raise RuntimeError(", False),
        ("Error executing job with overrides: []", False),
        ("WARNING 11-22 21:00:49 [cuda.py:230] Failed to import: ModuleNotFoundError('x')", False),
        ("step 3: 0 errors", False),
    ],
)
def test_which_lines_name_an_error(line: str, named: bool) -> None:
    assert names_error(line) is named
