"""What an experiment trains: its arms and seeds, the commands of each, and the settings its results depend on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config, nearest

STAGES = {"synthesize": "synthesize", "sft": "train.sft", "train": "train", "bench": "eval_benchmarks"}  # modules
RL = "train"
TRAINING = ("sft", RL)
PLACES = ("out_dir", "responses", "base_model", "model", "threads")  # where and how fast, not what; hashes say what
BASE = "base"  # the arm without training
PROFILE = "nano"  # whose budgets, prompt variants and benchmarks the experiments have

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


@dataclass(frozen=True)
class Job:
    """An arm and seed: the stages that train a judge (none for BASE), and the model that comes out."""

    arm: str
    seed: int | None
    commands: tuple[Command, ...]
    model: str

    @property
    def name(self) -> str:
        return self.arm if self.seed is None else f"{self.arm}-seed{self.seed}"

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
    """What the configuration says of one experiment: `arms` are all it has, `chosen` those to train."""

    name: str
    profile: str
    arms: tuple[str, ...]
    chosen: tuple[str, ...]
    seeds: tuple[int, ...]
    reference: str
    minutes: float
    tables: dict[str, list[str]]
    curves: list[str]
    benchmarks: tuple[str, ...]
    runs: Path
    results: Path

    @property
    def answers(self) -> Path:
        """What all arms are trained on."""
        return self.runs / "synthesize" / "responses.jsonl"

    def folder(self, job: Job) -> Path:
        return self.runs / job.name

    def result(self, arm: str, seed: int | None = None) -> Path:
        return self.results / (f"{arm}.json" if seed is None else f"{arm}-seed{seed}.json")


def read_experiment(config: DictConfig) -> Experiment:
    """The experiment that the configuration names.

    Raises InputError for names and numbers that do not fit, and for a profile that no experiment is planned for.
    """
    if config.profile != PROFILE:
        raise InputError(
            f"profile={config.profile}: the experiments are planned for profile={PROFILE} alone: "
            "their budgets, prompt variants and benchmarks are those of its world"
        )
    known = list(config.experiments)
    name = str(config.experiment)
    if name not in known:
        raise InputError(f"experiment: there is no '{name}'{nearest(name, known)}; there is: {', '.join(known)}")
    section = config.experiments[name]
    arms = tuple(map(str, section.arms))
    chosen = arms if config.arms is None else _names("arms", config.arms, arms)
    for at, row in section.tables.items():
        _names(f"experiments.{name}.tables.{at}", row, arms)
    for arm, stages in section.arms.items():
        if not stages or not set(stages) <= set(TRAINING):
            raise InputError(f"experiments.{name}.arms.{arm}: must hold stages out of {', '.join(TRAINING)}")
    seeds = tuple(config.seeds) if OmegaConf.is_list(config.seeds) else ()
    if not seeds or len(set(seeds)) < len(seeds) or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise InputError(f"seeds: must be a list of different whole numbers, found {config.seeds}")
    for key, low in (("jobs", 1), ("draws", 1), ("draws_seed", 0), ("smoothing", 1)):
        if type(config[key]) is not int or config[key] < low:
            raise InputError(f"{key}: must be a whole number of at least {low}, found {config[key]}")
    return Experiment(
        name=name,
        profile=config.profile,
        arms=arms,
        chosen=chosen,
        seeds=seeds,
        reference=_names(f"experiments.{name}.reference", [section.reference], arms)[0],
        minutes=section.minutes,
        tables={title: list(row) for title, row in section.tables.items()},
        curves=list(_names(f"experiments.{name}.curves", section.curves, arms)),
        benchmarks=tuple(map(str, config.benchmarks)),
        runs=Path(config.runs_dir) / name,
        results=Path(config.results_dir) / name,
    )


def _names(key: str, given: Any, known: Sequence[str]) -> tuple[str, ...]:
    if not (OmegaConf.is_list(given) or isinstance(given, list)) or not given:
        raise InputError(f"{key}: expected a list, such as [{known[0]}]")
    for name in given:
        if name not in known:
            raise InputError(f"{key}: there is no '{name}'{nearest(str(name), known)}; there is: {', '.join(known)}")
    return tuple(given)


def plan_answers(config: DictConfig, experiment: Experiment) -> Command:
    """The stage that writes the answers all arms are trained on."""
    own = config.experiments[experiment.name].synthesize
    return _command(experiment, "synthesize", own, out_dir=str(experiment.answers.parent))


def plan_jobs(config: DictConfig, experiment: Experiment) -> list[Job]:
    """BASE, then the chosen arms, all of them with a seed before the next seed.

    Raises InputError for a setting that a stage does not have, and for arms that are not given the same number of
    prompts.
    """
    section = config.experiments[experiment.name]
    base = str(load_config(RL, [f"profile={experiment.profile}"]).base_model)
    jobs = [Job(BASE, None, (), base)]
    for seed in experiment.seeds:
        for arm in experiment.chosen:
            jobs.append(_job(experiment, section, arm, seed, base))
    budgets = {job.arm: job.prompts for job in jobs if job.prompts is not None}
    for arm, prompts in budgets.items():
        first, wanted = next(iter(budgets.items()))
        if prompts != wanted:
            raise InputError(
                f"experiments.{experiment.name}.arms.{arm}: trains on {prompts} prompts, {first} on {wanted}: "
                "arms are compared at one budget"
            )
    return jobs


def _job(experiment: Experiment, section: DictConfig, arm: str, seed: int, base: str) -> Job:
    model, commands = base, []
    for stage, own in section.arms[arm].items():
        out = experiment.runs / f"{arm}-seed{seed}" / stage
        places = {"responses": str(experiment.answers), "base_model": model, "out_dir": str(out)}
        settings: Any = OmegaConf.merge(section.get(stage) or {}, own)
        commands.append(_command(experiment, stage, settings, seed=seed, **places))
        model = str(out / "model")
    return Job(arm, seed, tuple(commands), model)


def plan_bench(config: DictConfig, experiment: Experiment, job: Job) -> Command:
    """The stage that measures a job's model."""
    what = {"benchmarks": list(experiment.benchmarks), "scorers": ["rag_zeval"], "models": [job.model]}
    return _command(experiment, "bench", config.bench, **what, out_dir=str(experiment.folder(job) / "bench"))


def _command(experiment: Experiment, stage: str, settings: Mapping[str, Any], **more: Any) -> Command:
    own = {**flat(_plain(settings)), **more}
    words = (f"profile={experiment.profile}", *(f"{key}={_word(value)}" for key, value in own.items()))
    resolved: Any = OmegaConf.to_container(load_config(stage, words), resolve=True)
    return Command(stage, words, {key: value for key, value in resolved.items() if key not in PLACES})


def _plain(settings: Any) -> Any:
    return OmegaConf.to_container(settings, resolve=True) if OmegaConf.is_config(settings) else settings


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def flat(settings: Any, prefix: str = "") -> Settings:
    """`{"a.b": value}` for nested settings; lists are values."""
    return dict(_leaves(settings, prefix))


def _leaves(settings: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(settings, Mapping) and (settings or not prefix):
        for key, value in settings.items():
            yield from _leaves(value, f"{prefix}{key}.")
    else:
        yield prefix.rstrip("."), settings
