"""The arms and seeds of an experiment, their commands, and the settings that their results depend on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf
from pydantic import Field, NonNegativeInt, model_validator

from eval_benchmarks.bench_settings import check_names
from rag_zeval.errors import InputError
from rag_zeval.files import flat
from rag_zeval.stages.config import Section, check_settings, load_config, stored, word

MODULES = {"synthesize": "synthesize", "sft": "train.sft", "train": "train", "bench": "eval_benchmarks"}  # by stage
RL = "train"
TRAINING = ("sft", RL)
PLACES = ("out_dir", "responses", "base_model", "model", "threads")  # paths and speed only; hashes identify the files
BASE = "base"  # the arm without training

Settings = dict[str, Any]
Names = Annotated[list[str], Field(min_length=1, description="a list of names")]
Count = Annotated[int, Field(ge=1, description="a whole number of at least 1")]


@dataclass(frozen=True)
class StageCommand:
    """The command of one stage, `python -m MODULE WORDS`, and all its settings except PLACES."""

    stage: str
    words: tuple[str, ...]
    settings: Settings

    @property
    def module_and_words(self) -> list[str]:
        return [MODULES[self.stage], *self.words]

    @property
    def line(self) -> str:
        return shlex.join(["python", "-m", *self.module_and_words])


def run_name(arm: str, seed: int | None) -> str:
    """Return the name of the folder and the result file of an arm and seed; BASE has no seed."""
    return arm if seed is None else f"{arm}-seed{seed}"


@dataclass(frozen=True)
class ArmRun:
    """An arm with one seed, and the commands that train its judge.

    commands: empty for BASE. base: the model that training starts from. model: the trained model; for BASE it is base.
    """

    arm: str
    seed: int | None
    commands: tuple[StageCommand, ...]
    base: str
    model: str

    @property
    def name(self) -> str:
        return run_name(self.arm, self.seed)

    @property
    def prompts(self) -> int | None:
        """The number of prompts in reinforcement learning; None without that stage, or if it takes all prompts."""
        for command in self.commands:
            if command.stage == RL:
                rows = [stage["rows"] for stage in command.settings["stages"]]
                return None if None in rows else sum(rows) * command.settings["verl"]["trainer"]["total_epochs"]
        return None


class Experiment(Section):
    """The settings of one experiment: the common keys of configs/experiments.yaml, which explains them, and its own.

    arms: the arms to train. recipes: all arms of the experiment, each with its stages and their settings.
    """

    profile: str
    name: str
    arms: Names
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1, description="a list of different whole numbers")]
    recipes: dict[str, Any]
    reference: str
    minutes: int | float
    tables: dict[str, Names]
    curves: Names
    benchmarks: Names
    synthesize: Settings
    sft: Settings = {}
    train: Settings = {}
    bench: Settings
    runs_dir: str
    results_dir: str
    answers: str | None
    jobs: Count
    only_tables: bool
    draws: Count

    @model_validator(mode="after")
    def _check(self) -> Experiment:
        here = f"experiments.{self.name}"
        for arm, stages in self.recipes.items():
            if not isinstance(stages, Mapping) or not stages or not set(stages) <= set(TRAINING):
                raise InputError(f"{here}.arms.{arm}: must hold stages out of {', '.join(TRAINING)}")
        named = {f"{here}.tables.{title}": arms for title, arms in self.tables.items()}
        named |= {"arms": self.arms, f"{here}.reference": [self.reference], f"{here}.curves": self.curves}
        for key, arms in named.items():
            check_names(key, arms, self.recipes)
        if len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds: must be a list of different whole numbers, found {self.seeds}")
        return self

    @property
    def runs(self) -> Path:
        return Path(self.runs_dir) / self.name

    @property
    def results(self) -> Path:
        return Path(self.results_dir) / self.name

    @property
    def responses(self) -> Path:
        """The file with the answers that all arms are trained on."""
        return Path(self.answers or self.runs / "synthesize") / "responses.jsonl"

    @property
    def arms_and_seeds(self) -> list[tuple[str, int | None]]:
        """BASE, whose seed is None, and every recipe with every seed."""
        return [(BASE, None), *((arm, seed) for arm in self.recipes for seed in self.seeds)]

    def folder(self, run: ArmRun) -> Path:
        return self.runs / run.name

    def result(self, arm: str, seed: int | None = None) -> Path:
        return self.results / f"{run_name(arm, seed)}.json"


def read_experiment(config: DictConfig) -> Experiment:
    """Return the experiment that the configuration names.

    Raises InputError for unknown names and invalid values.
    """
    words: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    check_names("experiment", [words["experiment"]], words["experiments"])
    section = words["experiments"][words["experiment"]]
    arms = list(section["arms"]) if words["arms"] is None else words["arms"]
    own = {"name": words["experiment"], "recipes": section["arms"], "arms": arms}
    return check_settings(Experiment, {**words, **section, **own})


def answers_command(experiment: Experiment) -> StageCommand:
    return _command(experiment, "synthesize", {}, {"out_dir": str(experiment.responses.parent)})


def arm_runs(experiment: Experiment) -> list[ArmRun]:
    """Return BASE, then all arms to train with the first seed, then with the next seed, and so on.

    Raises InputError for a setting that a stage does not have. Also raises it if two arms differ in the number of
    prompts in reinforcement learning.
    """
    base = str(load_config(RL, [f"profile={experiment.profile}"]).base_model)
    runs = [ArmRun(BASE, None, (), base, base)]
    runs += [_arm_run(experiment, arm, seed, base) for seed in experiment.seeds for arm in experiment.arms]
    budgets = {run.arm: run.prompts for run in runs if run.prompts is not None}
    for arm, prompts in budgets.items():
        first, wanted = next(iter(budgets.items()))
        if prompts != wanted:
            raise InputError(
                f"experiments.{experiment.name}.arms.{arm}: trains on {prompts} prompts, {first} on {wanted}: "
                "arms are compared at one budget"
            )
    return runs


def _arm_run(experiment: Experiment, arm: str, seed: int, base: str) -> ArmRun:
    model, commands = base, []
    for stage, own in experiment.recipes[arm].items():
        out = experiment.runs / run_name(arm, seed) / stage
        places = {"responses": str(experiment.responses), "base_model": model, "out_dir": str(out)}
        commands.append(_command(experiment, stage, own, {"seed": seed, **places}))
        model = str(out / "model")
    return ArmRun(arm, seed, tuple(commands), base, model)


def bench_command(experiment: Experiment, run: ArmRun) -> StageCommand:
    what = {"benchmarks": experiment.benchmarks, "scorers": ["rag_zeval"], "models": [run.model]}
    return _command(experiment, "bench", {}, {**what, "out_dir": str(experiment.folder(run) / "bench")})


def _command(experiment: Experiment, stage: str, of_arm: Settings, more: Settings) -> StageCommand:
    """Return the command of a stage. Settings of the arm override those of all arms, and `more` overrides both."""
    settings = {**flat(getattr(experiment, stage)), **flat(of_arm), **more}
    words = (f"profile={experiment.profile}", *(word(key, value) for key, value in settings.items()))
    known = {key: value for key, value in stored(load_config(stage, words)).items() if key not in PLACES}
    return StageCommand(stage, words, known)
