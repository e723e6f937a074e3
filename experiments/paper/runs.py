"""The runs of the bench that the paper's rows are read from: one for each benchmark and model, or without a model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eval_benchmarks.bench_settings import RunSettings, read_settings
from eval_benchmarks.datasets.registry import BENCHMARKS
from experiments.paper.methods import PaperRow
from rag_zeval.models.language_model import read_card
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import MEASURES, TEXT_SCORERS
from rag_zeval.stages.config import load_config

NO_MODEL = "no-model"
MODULES = {"train": "train", "sft": "train.sft"}
TRIALS = 5  # samples of a judge, as in the paper
Text = Annotated[str, Field(min_length=1)]


class Arm(BaseModel):
    """How a model is trained here, and where it lies then."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: Literal["train", "sft"]
    settings: dict[str, Any]
    model: Text

    @property
    def words(self) -> list[str]:
        """Its own settings, as the stage takes them."""
        return [f"{key}={json.dumps(value)}" for key, value in self.settings.items()]

    def command(self, profile: str) -> str:
        """What trains it."""
        place = [f"profile={profile}", f"out_dir={Path(self.model).parent}"]
        return shlex.join(["python", "-m", MODULES[self.stage], *place, *self.words])


class PaperSettings(BaseModel):
    """The keys of `configs/paper.yaml`, where they are explained."""

    model_config = ConfigDict(strict=True, frozen=True)

    profile: str
    out_dir: Text
    tables: list[int]
    models: dict[str, Text | None]
    arms: dict[str, Arm]
    bert_score: Text | None
    trials: dict[str, int]
    prices: Text | None
    literal_port: int
    dry_run: bool


@dataclass(frozen=True)
class BenchRun:
    """One run of the bench: `judge` is the paper's name of the model, an arm's, or NO_MODEL; `model` ours."""

    judge: str
    benchmark: str
    model: str | None
    scorers: tuple[str, ...]
    trials: int
    embeddings: str | None
    bert_score: str | None
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def words(self) -> list[str]:
        """The bench's words beside the profile."""
        values: Mapping[str, object] = {
            "benchmarks": [self.benchmark],
            "scorers": list(self.scorers),
            "models": [self.model] if self.model else [],
            "judge.trials": self.trials,
            "embeddings.model": self.embeddings,
            "bert_score.model": self.bert_score,
        }
        return [f"out_dir={self.folder}", *(f"{key}={json.dumps(value)}" for key, value in values.items())]


def source(row: PaperRow) -> str:
    """The name of the run that a row is read from."""
    return f"{row.benchmark}-{_judge(row)}"


def _judge(row: PaperRow) -> str:
    return row.arm or (row.model if _asks_a_judge(row) else None) or NO_MODEL


def lacking(row: PaperRow, settings: PaperSettings) -> str | None:
    """What a row needs that is not there, None if nothing is missing."""
    if (line := _missing_data(settings.profile, row.benchmark)) is not None:
        return line
    if row.arm is not None:
        arm = settings.arms[row.arm]
        folder = Path(arm.model)
        if not (folder / "config.json").is_file():
            return f"a model in {folder}: `{arm.command(settings.profile)}`"
        world = read_card(folder).get("world")
        return f"a judge of real words: that of {folder} knows the {world} world alone" if world else None
    if row.model is not None and settings.models.get(row.model) is None:
        return f"models.{row.model}: a judge" if _asks_a_judge(row) else f"models.{row.model}: sentence vectors"
    if BertScore.name in row.scorers and settings.bert_score is None:
        return "bert_score: a folder of roberta-large"
    return None


@cache
def _missing_data(profile: str, benchmark: str) -> str | None:
    settings = read_settings(load_config("bench", [f"profile={profile}", f"benchmarks=[{benchmark}]"]), RunSettings)
    there, missing = BENCHMARKS[benchmark](settings)
    return missing[0] if there is None else None


def bench_runs(rows: Sequence[PaperRow], settings: PaperSettings) -> list[BenchRun]:
    """The runs that measure the rows, each once, in the rows' order; no row may lack anything."""
    by_source: dict[str, list[PaperRow]] = {}
    for row in rows:
        by_source.setdefault(source(row), []).append(row)
    return [_bench_run(_judge(of[0]), of, settings) for of in by_source.values()]


def _bench_run(judge: str, rows: Sequence[PaperRow], settings: PaperSettings) -> BenchRun:
    scorers = tuple(dict.fromkeys(scorer for row in rows for scorer in row.scorers))
    embeds = any(scorer in MEASURES and MEASURES[scorer].embeds for scorer in scorers)
    return BenchRun(
        judge,
        rows[0].benchmark,
        settings.arms[judge].model if judge in settings.arms else settings.models.get(judge),
        scorers,
        1 if judge == NO_MODEL else settings.trials.get(judge, TRIALS),
        settings.models.get("ada-002") if embeds else None,
        settings.bert_score if BertScore.name in scorers else None,
        Path(settings.out_dir) / "bench" / source(rows[0]),
    )


def _asks_a_judge(row: PaperRow) -> bool:
    return not all(
        scorer in TEXT_SCORERS or scorer == BertScore.name or (scorer in MEASURES and not MEASURES[scorer].prompts)
        for scorer in row.scorers
    )
