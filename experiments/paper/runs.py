"""The runs of the bench that the paper's rows are read from: one for each benchmark and model, or without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eval_benchmarks.bench_manifest import MANIFEST, data_hashes
from eval_benchmarks.bench_settings import RunSettings, check_names, read_settings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import BENCHMARKS
from eval_benchmarks.originals.packages import ORIGINALS
from experiments.paper.arms import Arms, has_gpus
from experiments.paper.methods import MEASURED, TABLES, PaperRow, paper_rows
from experiments.paper.paper_settings import PaperSettings
from experiments.paper.stand_in import is_stand_in
from rag_zeval.errors import InputError
from rag_zeval.files import flat
from rag_zeval.models.open import check_spec
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import MEASURES, TEXT_SCORERS
from rag_zeval.stages.config import load_config

NO_MODEL = "no-model"
VLLM = "vllm:"  # before a folder: decoded on this machine's GPUs
TRIALS = 5  # samples of a judge, as in the paper


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
    settings: Mapping[str, Any]

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
            **self.settings,
        }
        return [f"out_dir={self.folder}", *(f"{key}={json.dumps(value)}" for key, value in values.items())]


@dataclass(frozen=True)
class Plan:
    """What the tables chosen need: the rows of each, what a row lacks, models to train and runs of the bench, in order.

    rows: of the tables that are measured; lacking: of the rows that cannot be measured here.
    """

    settings: PaperSettings
    arms: Arms
    rows: Mapping[int, list[PaperRow]]
    lacking: Mapping[PaperRow, str]
    trained: list[str]
    bench: list[BenchRun]


def plan_runs(settings: PaperSettings) -> Plan:
    """Raises InputError for a table, an arm or a benchmark that does not exist."""
    if unknown := [number for number in settings.tables if number not in TABLES]:
        raise InputError(f"tables: unknown table {unknown[0]}; choose from: {', '.join(map(str, TABLES))}")
    arms = Arms(settings)
    of_tables = {
        number: list(paper_rows(number, settings.benchmark_of_arms))
        for number in dict.fromkeys(settings.tables)
        if number in MEASURED
    }
    rows = [row for of in of_tables.values() for row in of]
    lacks = {row: reason for row in rows if (reason := lacking(row, settings, arms)) is not None}
    there = [row for row in rows if row not in lacks]
    trained = list(dict.fromkeys(row.arm for row in there if row.arm is not None))
    return Plan(settings, arms, of_tables, lacks, trained, bench_runs(there, settings, arms))


def source(row: PaperRow) -> str:
    """The name of the run that a row is read from."""
    return f"{row.benchmark}-{_judge(row)}"


def _judge(row: PaperRow) -> str:
    return row.arm or (row.model if _asks_a_judge(row) else None) or NO_MODEL


def lacking(row: PaperRow, settings: PaperSettings, arms: Arms) -> str | None:
    """What a row needs that is not there and cannot be trained here, None if nothing is missing."""
    there, missing = _benchmark(settings.profile, row.benchmark)
    if there is None:
        return missing[0]
    if row.arm is not None:
        known = arms.world(row.arm)
        if known != there.world:
            return f"a judge of {there.world or 'real words'}: this profile's knows {known or 'real words'} alone"
        return arms.lacking(row.arm)
    if row.model is not None:
        spec = settings.models.get(row.model)
        if spec is None:
            return f"models.{row.model}: a judge" if _asks_a_judge(row) else f"models.{row.model}: sentence vectors"
        if spec.startswith(VLLM) and not settings.dry_run and not has_gpus():
            return f"models.{row.model}: GPUs for {spec}, or an endpoint"
        if row.original:
            return _original_lacking(row, spec)
    if BertScore.name in row.scorers and settings.bert_score is None:
        return "bert_score: a folder of roberta-large"
    return None


def _original_lacking(row: PaperRow, spec: str) -> str | None:
    for original in (ORIGINALS[name] for name in row.scorers):
        if not original.python.exists():
            return f"an environment of its own: `make {original.python.parents[1].name}/.ready`"
        if check_spec(spec) is None:
            return f"models.{row.model}: an endpoint, which is all that original packages ask"
        if is_stand_in(spec) and not original.embeds:
            return f"models.{row.model}: a model; the mock judge knows only our prompts"
    return None


@cache
def _benchmark(profile: str, name: str) -> tuple[Benchmark | None, list[str]]:
    check_names("benchmark_of_arms", [name], BENCHMARKS)
    words = [f"profile={profile}", f"benchmarks=[{name}]"]
    return BENCHMARKS[name](read_settings(load_config("bench", words), RunSettings))


def bench_runs(rows: Sequence[PaperRow], settings: PaperSettings, arms: Arms) -> list[BenchRun]:
    """The runs that measure the rows, each once, in the rows' order; no row may lack anything."""
    by_source: dict[str, list[PaperRow]] = {}
    for row in rows:
        by_source.setdefault(source(row), []).append(row)
    return [_bench_run(_judge(of[0]), of, settings, arms) for of in by_source.values()]


def _bench_run(judge: str, rows: Sequence[PaperRow], settings: PaperSettings, arms: Arms) -> BenchRun:
    benchmark, _ = _benchmark(settings.profile, rows[0].benchmark)
    greedy = benchmark is not None and benchmark.world is not None  # what is said twice is the same
    scorers = tuple(dict.fromkeys(scorer for row in rows for scorer in row.scorers))
    embeds = any(
        one is not None and one.embeds for name in scorers for one in (MEASURES.get(name), ORIGINALS.get(name))
    )
    return BenchRun(
        judge,
        rows[0].benchmark,
        arms.spec(judge) if judge in arms.runs else settings.models.get(judge),
        scorers,
        1 if judge == NO_MODEL or greedy else settings.trials.get(judge, TRIALS),
        settings.models.get("ada-002") if embeds else None,
        settings.bert_score if BertScore.name in scorers else None,
        Path(settings.out_dir) / "bench" / source(rows[0]),
        flat(settings.bench),
    )


def check_data(run: BenchRun, profile: str) -> None:
    """Raises InputError if a run that has ended scored other data than there are now (RAG_ZEVAL_DATA)."""
    path = run.folder / MANIFEST
    config = load_config("bench", [f"profile={profile}", *run.words])
    benchmark, _ = BENCHMARKS[run.benchmark](read_settings(config, RunSettings))
    if benchmark is not None and data_hashes(path).get(run.benchmark) != benchmark.data_hash:
        raise InputError(
            f"{path}: field 'data': {run.benchmark} is not what was scored: choose another out_dir, or remove this one"
        )


def _asks_a_judge(row: PaperRow) -> bool:
    return not all(
        scorer in TEXT_SCORERS or scorer == BertScore.name or (scorer in MEASURES and not MEASURES[scorer].prompts)
        for scorer in row.scorers
    )
