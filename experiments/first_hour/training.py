"""Training for real: a tiny model, killed and taken up again; the plan of the real one; its first steps."""

from __future__ import annotations

import glob
import re
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.first_hour.machine import steps_of
from experiments.first_hour.processes import POLL_SECONDS, command, last_line, run, started
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from rag_zeval.stages.training_log import Steps, attempt_files, read_attempt, read_run
from train.leftovers import KINDS, SHARED, stop_leftovers, unused
from train.progress import seconds_taken
from train.rollouts.agreement import CORRELATION, LIMITS, MEAN

QUESTIONS = {"gpu": 200, "cpu": 24}
FP32_LARGEST = 1e-4  # |p(rollout) - p(training)| of the tokens that were drawn: rounding
BF16 = LIMITS["bf16"]  # no GPU has shown its own figures yet
SYNTHESIZE_SECONDS, TRAIN_SECONDS, STEPS_SECONDS, PLAN_SECONDS = 900.0, 1500.0, 3000.0, 300.0


def tiny_train(scene: Scene) -> None:
    """The profile's own training with a tiny model: two or three steps, a SIGKILL, resumed, exported."""
    answers, out_dir = scene.folder / "answers", scene.folder / "tiny-train"
    shutil.rmtree(out_dir, ignore_errors=True)
    questions = QUESTIONS["gpu" if scene.gpus else "cpu"]
    make = command("synthesize", "profile=nano", f"n_questions={questions}", f"out_dir={answers}")
    if status := run(make, scene.folder / "answers.log", SYNTHESIZE_SECONDS):
        raise CheckFailed(f"the answers could not be made ({status}): {last_line(scene.folder / 'answers.log')}")
    print(f"answers to {questions} questions exist")
    before = set(SHARED.glob("*"))
    words = [f"responses={answers / 'responses.jsonl'}", f"out_dir={out_dir}"]
    arguments = command("train", f"profile={scene.here.profile}", *words, *scene.tiny)
    kill_after_a_step(arguments, out_dir, scene.folder / "killed.log")
    log = scene.folder / "resumed.log"
    status = run(arguments, log, TRAIN_SECONDS, print)
    if status != 0:
        raise CheckFailed(f"the resumed training {'did not end' if status is None else f'ended with {status}'} ({log})")
    if not re.search(r"^resuming after step [1-9]", log.read_text(encoding="utf-8"), re.MULTILINE):
        raise CheckFailed("after the SIGKILL the training started over: no checkpoint was resumed")
    check_agreement(read_run(out_dir), fp32=not scene.gpus)
    if left := stop_leftovers(out_dir):
        raise CheckFailed(f"{left} processes of the training were still there (they are stopped now)")
    segments = {path for path in set(SHARED.glob("*")) - before if path.name.startswith(KINDS)}
    if kept := sorted(path.name for path in unused(segments)):
        raise CheckFailed(f"{SHARED} still holds {', '.join(kept)}")
    print(f"no process and no shared memory is left; the model is in {out_dir / 'model'}")


def kill_after_a_step(arguments: Sequence[str], out_dir: Path, log: Path) -> None:
    """SIGKILL to a training once its first step is logged. Raises CheckFailed if it does not come to that."""
    log.unlink(missing_ok=True)
    with started(arguments, log) as process:
        deadline = time.monotonic() + TRAIN_SECONDS
        while not any(step >= 1 for path in attempt_files(out_dir / "metrics") for step, _ in read_attempt(path)):
            if process.poll() is not None:
                raise CheckFailed(
                    f"the training ended with {process.returncode} before a step: {last_line(log)} ({log})"
                )
            if time.monotonic() > deadline:
                raise CheckFailed(f"no step after {TRAIN_SECONDS:.0f} s ({log}, {out_dir / 'verl.log'})")
            time.sleep(POLL_SECONDS)
        process.send_signal(signal.SIGKILL)
        process.wait()
    print("killed after its first step")


def check_agreement(steps: Steps, fp32: bool) -> None:
    """Rollouts and training must have the same weights at each step. Raises CheckFailed for one where they had not."""
    trained = {step: data for step, data in steps.items() if step > 0}
    if not trained:
        raise CheckFailed("no step is logged")
    for step, data in trained.items():
        if fp32:
            largest = data.get("actor/rollout_probs_diff_max")
            print(f"step {step}: probabilities differ by {largest} at most, {seconds_taken(data):.1f} s")
            if largest is None or not largest <= FP32_LARGEST:
                raise CheckFailed(f"step {step}: actor/rollout_probs_diff_max is {largest}, more than {FP32_LARGEST:g}")
            continue
        mean, correlation = read_agreement(step, data)
        if not mean <= BF16.mean or not correlation >= BF16.correlation:
            raise CheckFailed(
                f"step {step}: rollout and training differ by {mean:.4f} (at most {BF16.mean}), "
                f"correlation {correlation:.4f} (at least {BF16.correlation}): the weights do not arrive as they are"
            )


def read_agreement(step: int, data: dict[str, float]) -> tuple[float, float]:
    """verl's mean difference and correlation of probabilities, printed. Raises CheckFailed where it logged none."""
    if missing := [name for name in (MEAN, CORRELATION) if name not in data]:
        raise CheckFailed(f"step {step}: verl logged no {', '.join(missing)}")
    mean, correlation = data[MEAN], data[CORRELATION]
    print(
        f"step {step}: probabilities differ by {mean:.5f}, correlation {correlation:.5f}, {seconds_taken(data):.1f} s"
    )
    return mean, correlation


def plan(scene: Scene) -> None:
    """`make train DRY_RUN=1` of the real model: verl takes the configuration, and memory and disk are planned."""
    status = run(
        command("train", f"profile={scene.profile}", "dry_run=true"), scene.folder / "dry-run.log", PLAN_SECONDS, print
    )
    if status != 0:
        raise CheckFailed(last_line(scene.folder / "dry-run.log"))


def first_steps(scene: Scene) -> None:
    """Two steps of the real model on real rows, one of three answers and one of four, and what a whole run takes."""
    settings, out_dir = scene.settings, scene.folder / "first-steps"
    if settings.platform == "gpu":
        scene.need_gpu()
    if not settings.base_is_local:
        name = Path(settings.base_model).name
        raise CannotRun(f"the model is missing: hf download Qwen/{name} --local-dir {settings.base_model}")
    if not glob.glob(settings.responses):
        raise CannotRun(f"{settings.responses} is missing: make synthesize PROFILE={scene.profile}")
    shutil.rmtree(out_dir, ignore_errors=True)
    batch = settings.verl.data.train_batch_size
    stages = ", ".join(f"{{k: {stage.k}, rows: {batch}}}" for stage in settings.stages)
    words = [f"out_dir={out_dir}", f"stages=[{stages}]", "validation=[{k: 3, rows: 1}]", "verl.trainer.test_freq=-1"]
    words += ["verl.trainer.val_before_train=false"]
    status = run(command("train", f"profile={scene.profile}", *words), scene.folder / "steps.log", STEPS_SECONDS, print)
    if status != 0:
        raise CheckFailed(f"the first steps {'did not end' if status is None else f'ended with {status}'}")
    steps = read_run(out_dir)
    for step, data in steps.items():
        if scene.gpus and read_agreement(step, data)[1] < BF16.correlation:
            raise CheckFailed(f"step {step}: rollout and training do not have the same weights")
    seconds = max(data["timing_s/step"] for step, data in steps.items() if step > 1)
    if total := steps_of(settings):
        hours = total * seconds / 3600
        print(f"{seconds:.0f} s for the last step: at its pace {total} steps take {hours:.1f} hours")
    for part in ("checkpoints", "model"):  # over 100 GB at 7B, and of no use
        shutil.rmtree(out_dir / part, ignore_errors=True)
