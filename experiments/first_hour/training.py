"""Checks that train: a tiny model that is killed and resumed, the plan of the real model, and its first steps."""

import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.first_hour import tiny_model, traces
from experiments.first_hour.processes import run_well, wait_for
from experiments.first_hour.scene import REHEARSAL, CannotRun, Finding, Scene, conclude
from experiments.training_runs import rollout_file
from rag_zeval.files import Row, flat
from rag_zeval.stages.config import load_config, word
from rag_zeval.stages.memory import watched
from rag_zeval.stages.processes import python_module, started
from rag_zeval.stages.training_log import Steps, read_run
from train.derived_keys import derived_keys
from train.launch import ROOT
from train.leftovers import all_segments, stop_leftovers
from train.plan import planned_steps
from train.rollouts.agreement import precision
from train.run_folder import RunFolder
from train.settings import TrainSettings, existing_responses, read_settings
from train.verl_config import PPO, build, schema

QUESTIONS = {"gpu": 200, "cpu": 24, REHEARSAL: 80}  # a third of the 80 can be shown with four answers
SYNTHESIZE_SECONDS, TRAIN_SECONDS, STEPS_SECONDS, PLAN_SECONDS = 900.0, 1500.0, 3000.0, 300.0
BASE = ROOT / "checkpoints" / "nano-base"
REHEARSED_STEP = 3  # kill after this one of four steps: the checkpoint is that of step 2, so step 3 is repeated
MOST_MINUTES, MOST_GIB = 15, 16  # limits of a training in the rehearsal


@dataclass(frozen=True)
class TinyTraining:
    """A training of a tiny model. words: the arguments of `train`."""

    words: tuple[str, ...]

    @cached_property
    def settings(self) -> TrainSettings:
        return read_settings(TrainSettings, load_config("train", self.words))

    @property
    def folder(self) -> Path:
        return Path(self.settings.out_dir)

    @property
    def command(self) -> list[str]:
        return python_module("train", *self.words)

    def log(self, part: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{part}.log")

    @property
    def exact(self) -> bool:
        """Whether the training computes in fp32, so that values that must be equal differ by rounding only."""
        return precision(build(self.settings.verl, {})) == "fp32"


def tiny_train(scene: Scene) -> None:
    """Run the profile's own training with a tiny model: kill it, resume it and export the model.

    A rehearsal computes in fp32.
    """
    run = tiny_run(scene, "tiny-train", *scene.fp32)
    check_training(run, kill_after=REHEARSED_STEP if scene.lane == REHEARSAL else 1)


def own_precision(scene: Scene) -> None:
    """Run a training of the rehearsal in the precision of the profile, without a kill."""
    check_training(tiny_run(scene, "own-precision"))


def tiny_run(scene: Scene, name: str, *words: str) -> TinyTraining:
    """Return a training of the lane on answers from the nano world, in a folder of this name."""
    responses, out_dir = scene.folder / "answers" / "responses.jsonl", scene.folder / name
    places = (word("responses", str(responses)), word("out_dir", str(out_dir)))
    return TinyTraining((f"profile={scene.here.profile}", *places, *scene.tiny, *words))


def check_training(run: TinyTraining, kill_after: int | None = None) -> None:
    """Train in an empty folder, kill the training and resume it. Raises CheckFailed naming all problems.

    kill_after: the step after which the training is killed; None does not kill it.
    """
    for key, (own, here) in differences(run).items():
        print(f"{key}: {here} (in the profile: {own})")
    prepare(run)
    shutil.rmtree(run.folder, ignore_errors=True)
    before, begun = all_segments(), time.monotonic()
    with watched() as memory:
        drawn = kill(run, kill_after) if kill_after else {}
        run_well("the training", run.command, run.log("train"), TRAIN_SECONDS)
    minutes = (time.monotonic() - begun) / 60
    found = findings(run, before, kill_after, drawn)
    if run.settings.platform == REHEARSAL:
        figure = f"{minutes:.1f} minutes, at most {memory.taken:.1f} GiB more than before it"
        cheap = minutes < MOST_MINUTES and memory.taken < MOST_GIB
        found.append(Finding(f"it takes less than {MOST_MINUTES} minutes and {MOST_GIB} GiB", cheap, figure))
    stop_leftovers(run.folder)
    conclude(found)


def differences(run: TinyTraining) -> dict[str, tuple[Any, Any]]:
    """Return all settings that differ from the profile, by dotted name: the profile's value, and the one here.

    It compares the keys of the stage and all of verl's, including those that the stage derives. It compares them as
    written, so a setting that refers to another one does not differ when that one does.
    """

    def written(words: Sequence[str]) -> Row:
        config, verl = load_config("train", words), schema(PPO).copy()
        settings = read_settings(TrainSettings, config)
        OmegaConf.set_struct(verl, False)
        verl.merge_with(OmegaConf.to_container(config.verl, resolve=False))
        for key, value in derived_keys(settings, RunFolder(run.folder), 0, 0).items():
            OmegaConf.update(verl, key, value, force_add=True)
        stage: Any = OmegaConf.to_container(config, resolve=False)
        return flat({**stage, "verl": OmegaConf.to_container(verl, resolve=False)})

    own, here = written(run.words[:1]), written(run.words)
    pairs = {key: (own.get(key), here.get(key)) for key in here | own}
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def prepare(run: TinyTraining) -> None:
    """Make the answers for the training, and the base model if it is missing. Raises CheckFailed if that fails."""
    settings, answers = run.settings, Path(run.settings.responses).parent
    size = f"n_questions={QUESTIONS[run.settings.platform]}"
    make = python_module("synthesize", "profile=nano", size, word("out_dir", str(answers)))
    run_well("making the answers", make, answers.with_suffix(".log"), SYNTHESIZE_SECONDS, lambda line: None)
    if not settings.base_is_local:
        tiny_model.make(BASE, Path(settings.base_model))


def kill(run: TinyTraining, step: int) -> dict[str, list[str]]:
    """Start the training and send SIGKILL once a step is logged.

    Returns the step's rollouts by prompt if the resumed run must repeat the step, else an empty dict. Raises
    CheckFailed if the step is not logged in time.
    """
    verl = run.settings.verl
    again = step % verl.trainer.save_freq > 0
    drawn = verl.data.train_batch_size * verl.actor_rollout_ref.rollout.n
    rollouts, log = rollout_file(run.folder, "train", step), run.log("killed")

    def logged() -> bool:
        written = not again or (rollouts.exists() and rollouts.read_bytes().count(b"\n") == drawn)
        return traces.has_logged(run.folder, step) and written

    with started(run.command, log) as process:
        wait_for(f"step {step}", logged, process, log, TRAIN_SECONDS)
        process.send_signal(signal.SIGKILL)
        process.wait()
    print(f"killed after step {step}")
    return traces.rollouts_by_prompt(run.folder, step) if again else {}


def findings(
    run: TinyTraining, before: set[Path], kill_after: int | None, drawn: Mapping[str, list[str]]
) -> list[Finding]:
    """Return the findings about the folder of a training.

    before: shared memory that existed before it. drawn: the rollouts before the kill, of the step that is repeated.
    """
    steps = planned_steps(run.settings.verl, run.settings.stages)
    folder, kind = run.folder, "cpu" if run.settings.platform == "cpu" else "fp32" if run.exact else "bf16"
    found = [
        traces.steps_follow(folder, steps or 0, attempts=2 if kill_after else 1),
        traces.weights_arrive(folder, traces.BOUNDS[kind], moving=run.settings.platform == REHEARSAL),
        traces.exported(folder, Path(run.settings.base_model), exact=run.exact),
        traces.nothing_is_left(folder, before),
    ]
    if run.exact:
        found.append(traces.greedy_is_transformers(folder))
    if kill_after and drawn:
        found.append(traces.resumed_as_before(folder, drawn, kill_after))
    if run.settings.platform == REHEARSAL:
        found.append(traces.nothing_stays_nan(folder))
        if run.settings.verl.actor_rollout_ref.model.get("lora_rank"):
            found.append(traces.adapters_arrive(folder))
    return found


def plan(scene: Scene) -> None:
    """Run `make train DRY_RUN=1` for the real model: verl checks the configuration; memory and disk are planned."""
    words = python_module("train", f"profile={scene.profile}", "dry_run=true")
    run_well("the dry run", words, scene.folder / "dry-run.log", PLAN_SECONDS)


def first_steps(scene: Scene) -> None:
    """Train the real model on real rows for a step of each stage, and print the hours of a whole run.

    The stages of the GPU profiles have three and four answers.
    """
    settings, out_dir = scene.settings, scene.folder / "first-steps"
    if settings.platform == "gpu":
        scene.need_gpu()
    if not settings.base_is_local:
        name = Path(settings.base_model).name
        raise CannotRun(f"the model is missing: hf download Qwen/{name} --local-dir {settings.base_model}")
    if not existing_responses(settings.responses):
        raise CannotRun(f"{settings.responses} is missing: make synthesize PROFILE={scene.profile}")
    shutil.rmtree(out_dir, ignore_errors=True)
    batch = settings.verl.data.train_batch_size
    stages = ", ".join(f"{{k: {stage.k}, rows: {batch}}}" for stage in settings.stages)
    words = [word("out_dir", str(out_dir)), f"stages=[{stages}]", "validation=[{k: 3, rows: 1}]"]
    words += ["verl.trainer.test_freq=-1", "verl.trainer.val_before_train=false"]
    train = python_module("train", f"profile={scene.profile}", *words)
    run_well("the training", train, scene.folder / "steps.log", STEPS_SECONDS)
    if scene.gpus:  # by correlation only: the real model is less certain of its tokens
        conclude([traces.weights_arrive(out_dir, traces.BOUNDS["bf16"][1:])])
    if total := planned_steps(settings.verl, settings.stages):
        print(pace(read_run(out_dir), total, settings.verl.trainer.save_freq))
    for part in ("checkpoints", "model"):  # over 100 GB for 7B, and not needed
        shutil.rmtree(out_dir / part, ignore_errors=True)


def pace(steps: Steps, total: int, save_freq: int) -> str:
    """Return a line with the hours of a run of `total` steps, at the pace of the slowest step after the first.

    verl counts a checkpoint into its step. The last of these few steps has one, and of a run only every `save_freq`-th.
    """
    saving = "timing_s/save_checkpoint"
    later = [data for step, data in steps.items() if step > 1]
    seconds = max(data["timing_s/step"] - data.get(saving, 0.0) for data in later)
    checkpoint, saves = max(data.get(saving, 0.0) for data in later), -(-total // save_freq)
    hours = (total * seconds + saves * checkpoint) / 3600
    return (
        f"{seconds:.0f} s for the slowest step after the first, {checkpoint:.0f} s for a checkpoint: at this pace "
        f"{total} steps and {saves} checkpoints take {hours:.1f} hours, without validation"
    )
