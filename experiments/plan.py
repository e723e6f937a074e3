"""What an experiment trains: its arms and seeds, the commands of each, and the settings its results depend on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from eval_benchmarks.bench_settings import check_names
from rag_zeval.errors import InputError
from rag_zeval.files import flat
from rag_zeval.stages.config import load_config, stored

STAGES = {"synthesize": "synthesize", "sft": "train.sft", "train": "train", "bench": "eval_benchmarks"}  # modules
RL = "train"
TRAINING = ("sft", RL)
PLACES = ("out_dir", "responses", "base_model", "model", "threads")  # where and how fast, not what; hashes say what
BASE = "base"  # the arm without training

Settings = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One stage: `python -m MODULE WORDS`, and all settings that it then has but for places."""

    stage: str
    words: tuple[str, ...]
    settings: Settings

    @property
    def argv(self) -> list[str]:
        return ["-m", STAGES[self.stage], *self.words]

    @property
    def line(self) -> str:
        return shlex.join(["python", *self.argv])


def run_name(arm: str, seed: int | None) -> str:
    """What the folder and the result file of an arm and seed are called; BASE has no seed."""
    return arm if seed is None else f"{arm}-seed{seed}"


@dataclass(frozen=True)
class ArmRun:
    """An arm and seed: the commands that train a judge (none for BASE), its first model, and the one that comes out."""

    arm: str
    seed: int | None
    commands: tuple[Command, ...]
    base: str
    model: str

    @property
    def name(self) -> str:
        return run_name(self.arm, self.seed)

    @property
    def prompts(self) -> int | None:
        """Prompts that reinforcement learning sees; None without that stage, or where it takes all there are."""
        for command in self.commands:
            if command.stage == RL:
                rows = [stage["rows"] for stage in command.settings["stages"]]
                return None if None in rows else sum(rows) * command.settings["verl"]["trainer"]["total_epochs"]
        return None


@dataclass(frozen=True)
class Experiment:
    """What the configuration says of one experiment; configs/experiments.yaml explains each.

    `arms` are all it has, `chosen` those to train; `answers`: what all of them are trained on; `settings`: of each
    stage, what all arms share, and `of_arms`: of each arm, its stages with their own settings.
    """

    profile: str
    name: str
    arms: tuple[str, ...]
    chosen: tuple[str, ...]
    seeds: tuple[int, ...]
    reference: str
    minutes: float
    tables: dict[str, list[str]]
    curves: list[str]
    benchmarks: tuple[str, ...]
    settings: dict[str, Settings]
    of_arms: dict[str, dict[str, Settings]]
    runs: Path
    results: Path
    answers: Path
    jobs: int
    draws: int
    draws_seed: int
    smoothing: int

    def seeds_of(self, arm: str) -> tuple[int | None, ...]:
        return (None,) if arm == BASE else self.seeds

    def folder(self, run: ArmRun) -> Path:
        return self.runs / run.name

    def result(self, arm: str, seed: int | None = None) -> Path:
        return self.results / f"{run_name(arm, seed)}.json"


def read_experiment(config: DictConfig) -> Experiment:
    """The experiment that the configuration names.

    Raises InputError for names and numbers that do not fit.
    """
    words: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    name, known = str(config.experiment), list(words["experiments"])
    check_names("experiment", [name], known)
    section, here = words["experiments"][name], f"experiments.{name}"
    arms = tuple(map(str, section["arms"]))
    for title, row in section["tables"].items():
        _check_names(f"{here}.tables.{title}", row, arms)
    for arm, stages in section["arms"].items():
        if not stages or not set(stages) <= set(TRAINING):
            raise InputError(f"{here}.arms.{arm}: must hold stages out of {', '.join(TRAINING)}")
    seeds = words["seeds"] if isinstance(words["seeds"], list) else []
    if not seeds or len(set(seeds)) < len(seeds) or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise InputError(f"seeds: must be a list of different whole numbers, found {words['seeds']}")
    numbers = {"jobs": 1, "draws": 1, "draws_seed": 0, "smoothing": 1}
    for key, low in numbers.items():
        if type(words[key]) is not int or words[key] < low:
            raise InputError(f"{key}: must be a whole number of at least {low}, found {words[key]}")
    runs = Path(words["runs_dir"]) / name
    return Experiment(
        profile=str(config.profile),
        name=name,
        arms=arms,
        chosen=arms if words["arms"] is None else tuple(_check_names("arms", words["arms"], arms)),
        seeds=tuple(seeds),
        reference=_check_names(f"{here}.reference", [section["reference"]], arms)[0],
        minutes=section["minutes"],
        tables=section["tables"],
        curves=_check_names(f"{here}.curves", section["curves"], arms),
        benchmarks=tuple(map(str, words["benchmarks"])),
        settings={stage: flat(section.get(stage) or {}) for stage in STAGES} | {"bench": flat(words["bench"])},
        of_arms={arm: {stage: flat(own) for stage, own in stages.items()} for arm, stages in section["arms"].items()},
        runs=runs,
        results=Path(words["results_dir"]) / name,
        answers=Path(words["answers"] or runs / "synthesize") / "responses.jsonl",
        **{key: words[key] for key in numbers},
    )


def _check_names(key: str, names: Any, known: Sequence[str]) -> list[str]:
    if not isinstance(names, list) or not names:
        raise InputError(f"{key}: expected a list, such as [{known[0]}]")
    check_names(key, [str(name) for name in names], known)
    return names


def plan_answers(experiment: Experiment) -> Command:
    """The stage that writes the answers all arms are trained on."""
    place = {"out_dir": str(experiment.answers.parent)}
    return _command(experiment, "synthesize", {**experiment.settings["synthesize"], **place})


def plan_runs(experiment: Experiment) -> list[ArmRun]:
    """BASE, then the chosen arms, all of them with a seed before the next seed.

    Raises InputError for a setting that a stage does not have, and for arms that are not given the same number of
    prompts.
    """
    base = str(load_config(RL, [f"profile={experiment.profile}"]).base_model)
    runs = [ArmRun(BASE, None, (), base, base)]
    runs += [_arm_run(experiment, arm, seed, base) for seed in experiment.seeds for arm in experiment.chosen]
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
    for stage, own in experiment.of_arms[arm].items():
        out = experiment.runs / run_name(arm, seed) / stage
        places = {"responses": str(experiment.answers), "base_model": model, "out_dir": str(out)}
        commands.append(_command(experiment, stage, {**experiment.settings[stage], **own, "seed": seed, **places}))
        model = str(out / "model")
    return ArmRun(arm, seed, tuple(commands), base, model)


def plan_bench(experiment: Experiment, run: ArmRun) -> Command:
    """The stage that measures the model of an arm and seed."""
    what = {"benchmarks": list(experiment.benchmarks), "scorers": ["rag_zeval"], "models": [run.model]}
    place = {"out_dir": str(experiment.folder(run) / "bench")}
    return _command(experiment, "bench", {**experiment.settings["bench"], **what, **place})


def _command(experiment: Experiment, stage: str, settings: Settings) -> Command:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    words = (f"profile={experiment.profile}", *(f"{key}={value}" for key, value in values.items()))
    settings = stored(load_config(stage, words))
    return Command(stage, words, {key: value for key, value in settings.items() if key not in PLACES})
