"""The benchmark stage: load data, score row by row, resume, summarise."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from eval_benchmarks import tables
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import BothOrders, has_pairs
from eval_benchmarks.inputs import (
    JUDGE,
    MEASURES,
    TEXT_SCORERS,
    asks_a_judge,
    check_config,
    load_benchmarks,
    not_trained_yet,
)
from eval_benchmarks.nano_world import WORLD
from eval_benchmarks.outputs import write_outputs
from eval_benchmarks.results import Result, scorer_name
from eval_benchmarks.scorers import Scored, Scorer
from eval_benchmarks.scorers.asking import AskingScorer, Measure
from eval_benchmarks.scorers.bert_score import BertScore
from eval_benchmarks.scorers.rag_zeval import RagZeval
from eval_benchmarks.scorers.sft_ranker import SftRanker
from rag_zeval.cache import CachedBackend, ReplyCache
from rag_zeval.embeddings import CachedEmbedder, Embedder, open_embedder
from rag_zeval.errors import InputError
from rag_zeval.evaluator import Example
from rag_zeval.files import RowWriter, write_json, write_text
from rag_zeval.llm import Backend, Sampling, open_backend
from rag_zeval.prompt import RANKING

REASONS = 5  # reasons for missing scores shown of each scorer
REPLIES = "replies.sqlite"  # in out_dir: what measures asked, so that those of a family ask it once
PACKAGES = ("numpy", "scipy", "sacrebleu", "rouge-score", "torch", "transformers", "vllm")


@dataclass(frozen=True)
class _Job:
    benchmark: Benchmark
    scorer: Scorer
    model: str | None = None

    @property
    def file(self) -> str:
        """Row file name: its last part changes with data, prompt, sampling and weights, so no stale row is reused."""
        key = hashlib.sha256(json.dumps([self.scorer.identity, self.benchmark.data_hash]).encode()).hexdigest()[:8]
        model = re.sub(r"[^A-Za-z0-9.]+", "-", self.model or "text").strip("-")
        return f"{self.benchmark.name}__{self.scorer.name}__{model}-{key}.jsonl"


def run(config: DictConfig) -> int:
    """Score everything the configuration names, write `out_dir`, print the tables.

    0, or 1 after a line on stderr (and after everything is written) if a judge gave a benchmark no score at all.

    Raises InputError, before any model is loaded, for configuration, data or models that cannot be used.
    """
    console = tables.open_console()
    check_config(config)
    benchmarks, missing = load_benchmarks(config)
    left_out: list[str] = []
    out = Path(config.out_dir)
    write_text(out / "config.yaml", OmegaConf.to_yaml(config, resolve=True))

    def leave_out(line: str) -> None:
        left_out.append(line)
        console.print(Text(f"left out: {line}", style="yellow"), soft_wrap=True)

    for line in missing:
        leave_out(line)
    results: list[Result] = []
    with _progress(console) as progress:
        for job in _jobs(config, benchmarks, leave_out):
            results.append(_result(job, out, progress))
            if config.judge.swapped and isinstance(job.scorer, RagZeval | SftRanker) and has_pairs(job.benchmark):
                swapped = BothOrders(job.benchmark, results[-1].scored)
                results.append(_result(replace(job, benchmark=swapped), out, progress))
            del job  # and with it a model, before the next is loaded
    if not results:
        raise InputError("nothing could be scored: " + "; ".join(left_out))
    notes = [f"left out: {line}" for line in left_out] + [line for result in results for line in _failures(result)]
    made, notes = write_outputs(out, results, notes, config.bootstrap.draws, config.bootstrap.seed)
    tables.show(console, made, notes)
    write_json(out / "manifest.json", _manifest(config, benchmarks, results, notes))
    if silent := [f"{_who(r)}: {_missing(r)[0]}" for r in results if r.model and not _has_a_score(r)]:
        print("error: no score at all: " + "; ".join(silent), file=sys.stderr)
    return 1 if silent else 0


def _result(job: _Job, out: Path, progress: Progress) -> Result:
    scored = _score(job, out / "rows" / job.file, progress)
    prompt_hash = getattr(job.scorer, "prompt_hash", None)
    return Result(job.benchmark, job.scorer.name, job.model, job.file, job.scorer.identity, prompt_hash, scored)


def _jobs(config: DictConfig, benchmarks: list[Benchmark], leave_out: Callable[[str], None]) -> Iterator[_Job]:
    """Everything to score, cheap things first; a model is loaded when its first job comes, one at a time."""
    chosen = [TEXT_SCORERS[name]() for name in dict.fromkeys(config.scorers) if name in TEXT_SCORERS]
    if BertScore.name in config.scorers and config.bert_score.model is None:
        leave_out(f"{BertScore.name}: bert_score.model names no folder with a model")
    elif BertScore.name in config.scorers:
        chosen.append(BertScore(config.bert_score.model))
    for benchmark in benchmarks:
        for scorer in (*chosen, *benchmark.shipped):
            yield _Job(benchmark, scorer)
    measures = [MEASURES[name] for name in dict.fromkeys(config.scorers) if name in MEASURES]
    fitting = [pair for pair in itertools.product(benchmarks, measures) if _has_what_it_needs(*pair, leave_out)]
    cache = ReplyCache(Path(config.out_dir) / REPLIES) if fitting else None
    embedder = _open_embedder(config, cache) if cache and any(measure.embeds for _, measure in fitting) else None
    for benchmark, measure in fitting:
        if not measure.prompts:
            yield _Job(benchmark, AskingScorer(measure, None, _sampling(config), embedder), config.embeddings.model)
    judged = asks_a_judge(config)
    for spec in map(str, config.models if judged else ()):
        if not_trained_yet(spec):
            leave_out(f"{', '.join(judged)} by {spec}: no model there yet; `make train` writes it")
            continue
        backend = open_backend(spec, concurrency=config.judge.concurrency, api_key_env=config.judge.api_key_env)
        world = backend.card.get("world")
        for benchmark in benchmarks if JUDGE in judged else ():
            if world and benchmark.world != world:
                leave_out(f"{benchmark.name}, {JUDGE} by {spec}: this judge knows only its own world ({world})")
            else:
                yield _Job(benchmark, _judge(config, benchmark, backend), spec)
        for benchmark, measure in fitting:
            if measure.prompts and world:
                leave_out(f"{benchmark.name}, {measure.name} by {spec}: this judge knows only its own prompt")
            elif measure.prompts and cache:
                judge = CachedBackend(backend, cache)
                yield _Job(benchmark, AskingScorer(measure, judge, _sampling(config), embedder), spec)
                del judge
        del backend


def _has_what_it_needs(benchmark: Benchmark, measure: Measure, leave_out: Callable[[str], None]) -> bool:
    lacking = [need for need in measure.needs if not any(getattr(e, need) for e in benchmark.examples)]
    if lacking:
        leave_out(f"{benchmark.name}, {measure.name}: the benchmark has no {' and no '.join(lacking)}")
    return not lacking


def _open_embedder(config: DictConfig, cache: ReplyCache) -> Embedder:
    """The model of sentences, of which every vector is asked for once."""
    key = config.embeddings.api_key_env
    return CachedEmbedder(
        open_embedder(config.embeddings.model, concurrency=config.judge.concurrency, api_key_env=key), cache
    )


def _sampling(config: DictConfig) -> Sampling:
    judge = config.judge
    return Sampling(judge.temperature, judge.top_p, judge.max_tokens, judge.seed)


def _judge(config: DictConfig, benchmark: Benchmark, backend: Backend) -> RagZeval | SftRanker:
    """The scorer that asks this model: a ranker's card says that it is one."""
    variant, sampling = config.judge.variant, _sampling(config)
    if benchmark.world == WORLD:
        variant = config.nano_eval.variant
        sampling = Sampling(temperature=0.0, top_p=1.0, max_tokens=config.nano_eval.max_tokens, seed=0)
    if variant is None and backend.card.get("variant") == RANKING.name:
        return SftRanker(backend, sampling)
    return RagZeval(backend, variant, sampling, config.judge.structured)


def _score(job: _Job, path: Path, progress: Progress) -> dict[str, Scored]:
    """Score the examples that the row file lacks, a row written as soon as it is done.

    A group that is computed together is computed whole again if a row of it is missing: a run that was killed then
    writes what an undisturbed one does.
    """
    with _open_rows(path) as rows:
        todo = [example for example in job.benchmark.examples if example.id not in rows.done]
        label = " ".join(filter(None, (job.benchmark.name, job.scorer.name, job.model)))
        total = len(job.benchmark.examples)
        task = progress.add_task(label, total=total, completed=total - len(todo))
        size = job.scorer.group
        groups = _groups(job.benchmark.examples, size) if size else [todo]
        for group in groups:
            if all(example.id in rows.done for example in group):
                continue
            for scored in job.scorer.score(group):
                if scored.id not in rows.done:
                    rows.append(scored.row())
                    progress.advance(task)
        return {id_: Scored.from_row(row) for id_, row in rows.done.items()}


def _groups(examples: Sequence[Example], size: int) -> list[Sequence[Example]]:
    return [examples[start : start + size] for start in range(0, len(examples), size)]


def _open_rows(path: Path) -> RowWriter:
    """The row file without the rows to which no reply came: those are asked again."""
    rows = RowWriter(path)
    final = [row for row in rows.done.values() if row.get("final")]
    if len(final) == len(rows.done):
        return rows
    with rows:
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in final))
    return RowWriter(path)


def _failures(result: Result) -> Iterator[str]:
    """A line for each of the usual reasons why answers have no score, and one for the rest.

    Reasons that differ only in their numbers count as one, of which the first is shown.
    """
    alike: dict[str, list[str]] = {}
    for status in _missing(result):
        alike.setdefault(re.sub(r"\d+", "N", status), []).append(status)
    groups = sorted(alike.values(), key=len, reverse=True)
    for statuses in groups[:REASONS]:
        more = f" (and {len(statuses) - 1} like it)" if len(statuses) > 1 else ""
        yield f"{_who(result)}: an answer without a score: {statuses[0]}{more}"
    if rest := sum(map(len, groups[REASONS:])):
        yield f"{_who(result)}: {rest} more answers without a score, for other reasons: see rows/{result.file}"


def _has_a_score(result: Result) -> bool:
    return any(value is not None for scored in result.scored.values() for value in scored.values)


def _missing(result: Result) -> list[str]:
    """The status of every answer without a score."""
    return [score.status for scored in result.scored.values() for score in scored.scores if score.value is None]


def _who(result: Result) -> str:
    return f"{result.benchmark.name}, {scorer_name(result.scorer, result.model)}"


def _manifest(
    config: DictConfig, benchmarks: list[Benchmark], results: list[Result], notes: list[str]
) -> dict[str, Any]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "config": OmegaConf.to_container(config, resolve=True),
        "data": {b.name: {"sha256": b.data_hash, "examples": len(b.examples)} for b in benchmarks},
        "rows": [
            {
                "benchmark": result.benchmark.name,
                "scorer": result.scorer,
                "model": result.model,
                "trial": result.trial,
                "file": f"rows/{result.file}",
                "identity": result.identity,
                "prompt_hash": result.prompt_hash,
            }
            for result in results
        ],
        "notes": notes,
        "versions": versions,
    }


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="cyan")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
    )
