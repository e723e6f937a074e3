"""The jobs of a benchmark run: one for each benchmark, scorer, model (if the scorer asks one) and trial."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from inspect import getfile
from pathlib import Path
from typing import Any

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.nano_eval import WORLD
from eval_benchmarks.model_checks import not_trained_yet
from eval_benchmarks.originals.packages import ORIGINALS, Original
from eval_benchmarks.originals.scorer import OriginalScorer
from rag_zeval.budget import Account, Budget, Price
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, locate
from rag_zeval.judge.needs import missing_everywhere
from rag_zeval.judge.prompt import RANKING
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedder
from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.language_model import Backend, Sampling
from rag_zeval.models.nli import Checker, open_checker
from rag_zeval.models.open import check_spec, open_backend, open_embedder
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.asking import Measure
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import CHECKER_SCORERS, JUDGE, MEASURES, METHODS, TEXT_SCORERS
from rag_zeval.scorers.score import Scorer
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.in_windows import plan_parts
from rag_zeval.scoring.opening import CHECKED_TEXTS, Asking, Models, open_scorer
from rag_zeval.scoring.prices import price_of

ORIGINAL_REPLIES = "originals.sqlite"  # in out_dir: the replies to original packages
REPLIES = "replies.sqlite"  # in out_dir: the replies to our measures; related ones share them
# The hashes of the modules of the scorers that can score again for free: those without a model, and the measures, whose
# replies are cached. Read when the modules are loaded, because people edit them during a run.
CODE = {name: file_sha256(Path(getfile(METHODS[name]))) for name in (*TEXT_SCORERS, *MEASURES)}


@dataclass(frozen=True)
class ScoringJob:
    """A benchmark that a scorer is to score.

    trial: the number of a judge's sample, from 0. Each has its own seed.
    """

    benchmark: Benchmark
    scorer: Scorer
    model: str | None = None
    trial: int = 0

    @property
    def label(self) -> str:
        """The names of benchmark, scorer and model, and from the second trial on its number."""
        trial = f"trial {self.trial + 1}" if self.trial else None
        return " ".join(filter(None, (self.benchmark.name, self.scorer.name, self.model, trial)))

    @property
    def file(self) -> str:
        """The path of its row file, relative to the run's folder.

        The name changes with the data, the prompt, the sampling, the weights of the model, and the code in CODE.
        """
        made_of = [self.scorer.identity, self.benchmark.data_hash]
        if self.scorer.name in CODE:
            made_of.append(CODE[self.scorer.name])
        key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:8]
        scorer = self.scorer.name.replace(":", "-")
        benchmark = re.sub(r"\s+", "-", self.benchmark.name)  # tables.csv separates file names by spaces
        return f"rows/{benchmark}__{scorer}__{_in_a_name(self.model or 'text')}-{key}.jsonl"


def _in_a_name(model: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-")


LeaveOut = Callable[[str], None]  # is called with a line that says what is left out, and why


def scorers_without_model(settings: BenchSettings, leave_out: LeaveOut) -> set[str]:
    """Return the chosen scorers that a run leaves out, because the setting that names their model is null."""
    needs = dict.fromkeys(CHECKER_SCORERS, ("claim_checker.model", settings.claim_checker.model))
    needs[BertScore.name] = "bert_score.model", settings.bert_score.model
    lacking = {name: key for name, (key, model) in needs.items() if name in settings.scorers and model is None}
    for name, key in lacking.items():
        leave_out(f"{name}: {key} is not a folder with a model")
    return {*lacking}


def open_claim_checker(settings: BenchSettings) -> Checker | None:
    """Open the model of the scorers that use a claim checker. None if none is chosen, or if no model is named."""
    model = settings.claim_checker.model
    if model is None or not {*CHECKER_SCORERS} & {*settings.scorers}:
        return None
    with locate("claim_checker.model"):
        return open_checker(model, settings.claim_checker.remote_code)


def open_accounts(settings: BenchSettings, prices: Mapping[str, Price]) -> dict[str, Account]:
    """Return the account that pays for the calls to each judge behind an endpoint, by its spec.

    All accounts share one budget. There are none without `max_cost`. What the rows in `out_dir` have cost counts as
    spent. Raises InputError for a judge without a price.
    """
    accounts: dict[str, Account] = {}
    if settings.max_cost is None:
        return accounts
    budget = Budget(settings.max_cost)
    for spec in settings.models if settings.judged_scorers else ():
        if check_spec(spec) is None:
            continue
        if (price := price_of(spec, prices)) is None:
            raise InputError(f"max_cost needs the price of {spec}: add prices=FILE with it")
        accounts[spec] = Account(budget, price)
        of_model = re.compile(rf".+__{re.escape(_in_a_name(spec))}-[0-9a-f]{{8}}\.jsonl")
        for path in sorted((Path(settings.out_dir) / "rows").glob("*.jsonl")):
            if of_model.fullmatch(path.name):
                with RowWriter(path) as rows:  # ignores a last line that a kill cut off
                    budget.spent += sum(price.paid(row.get("paid_tokens")) or 0.0 for row in rows.done.values())
    return accounts


def jobs(
    settings: BenchSettings,
    benchmarks: list[Benchmark],
    checker: Checker | None,
    accounts: Mapping[str, Account],
    leave_out: LeaveOut,
) -> Iterator[ScoringJob]:
    """Yield every job, cheap ones first. A judge is loaded when its first job comes, and only one at a time."""
    for benchmark, scorer in itertools.product(benchmarks, _text_scorers(settings, checker)):
        yield ScoringJob(benchmark, scorer)
    for benchmark in benchmarks:
        for scorer in benchmark.shipped:
            yield ScoringJob(benchmark, scorer)
    measures = [MEASURES[name] for name in dict.fromkeys(settings.scorers) if name in MEASURES]
    fitting = [pair for pair in itertools.product(benchmarks, measures) if has_what_it_needs(*pair, leave_out)]
    cache = ReplyCache(Path(settings.out_dir) / REPLIES) if fitting else None
    with cache or nullcontext():
        embedder = None  # the embedding model; it embeds each text only once
        if cache and any(measure.embeds for _, measure in fitting):
            embedder = CachedEmbedder(_open_embedder(settings), cache)
        for benchmark, measure in fitting:
            if not measure.prompts:
                scorer = open_scorer(measure.name, Models(embedder=embedder), Asking())
                yield ScoringJob(benchmark, scorer, settings.embeddings.model)
        asking = [(benchmark, JUDGE) for benchmark in benchmarks if JUDGE in settings.judged_scorers]
        asking += [(benchmark, measure.name) for benchmark, measure in fitting if measure.prompts]
        for spec in settings.models if settings.judged_scorers else ():
            if not_trained_yet(spec):
                names = ", ".join(settings.judged_scorers)
                leave_out(f"{names} by {spec}: no model there yet; `make train` writes it")
                continue
            calls = {**settings.judge.calls, "account": accounts.get(spec)}
            backend = open_backend(spec, processes=settings.judge.processes, **calls)
            yield from _judge_jobs(settings, asking, spec, backend, cache, embedder, leave_out)
            yield from _original_jobs(settings, benchmarks, spec, backend, leave_out)
            del backend


def _text_scorers(settings: BenchSettings, checker: Checker | None) -> list[Scorer]:
    """Open the chosen scorers that ask neither a judge nor an embedding model."""
    models = Models(checker=checker, encoder=settings.bert_score.model)
    names = [name for name in dict.fromkeys(settings.scorers) if name in TEXT_SCORERS]
    names += [BertScore.name] if models.encoder and BertScore.name in settings.scorers else []
    names += [name for name in CHECKED_TEXTS if checker and name in settings.scorers]
    return [open_scorer(name, models, Asking()) for name in names]


def _judge_jobs(
    settings: BenchSettings,
    asking: list[tuple[Benchmark, str]],
    spec: str,
    backend: Backend,
    cache: ReplyCache | None,
    embedder: Embedder | None,
    leave_out: LeaveOut,
) -> Iterator[ScoringJob]:
    """Yield the jobs of our scorers that ask this judge. The measures share the replies in `cache`.

    References of labelled texts that are too long for the judge are judged in pieces. Answers are judged in windows if
    the judge's card limits their length.
    """
    models = Models(CachedBackend(backend, cache) if cache else backend, embedder)
    timeout = math.inf if backend.batched else settings.judge.timeout  # rows of a batch wait for each other
    for benchmark, name in asking:
        if unsuited := unsuited_judge(settings, benchmark, name, backend.card):
            leave_out(f"{benchmark.name}, {name} by {spec}: {unsuited}")
            continue
        for trial in range(trials_of(settings, benchmark, name)):
            if name == JUDGE:
                scorer = judge_scorer(settings, benchmark, backend, trial)
            else:
                scorer = open_scorer(name, models, Asking(settings.judge.sampling(trial), timeout=timeout))
            parts = plan_parts(scorer, benchmark.examples, backend)
            if not benchmark.absolute:
                parts = replace(parts, in_pieces=0)
            yield ScoringJob(benchmark, parts.asked(scorer), spec, trial)


def unsuited_judge(settings: BenchSettings, benchmark: Benchmark, name: str, card: Mapping[str, Any]) -> str | None:
    """Return why a judge with this card cannot be asked by a scorer of that name. None if it can be.

    A judge of a generated world knows RAG-Zeval's prompt and the texts of its world, and nothing else. A ranker cannot
    judge texts with labels of their own.
    """
    world = card.get("world")
    if world and name != JUDGE:
        return "this judge knows only its own prompt"
    if world and benchmark.world != world:
        return f"this judge knows only its own world ({world})"
    ranks = name == JUDGE and benchmark.absolute and is_ranker(judge_asking(settings, benchmark), card)
    return "a ranker does not say what is supported" if ranks else None


def is_ranker(asking: Asking, card: Mapping[str, Any]) -> bool:
    """Whether a judge with this card ranks answers, unless it is asked with another prompt."""
    return asking.variant is None and card.get("variant") == RANKING.name


def trials_of(settings: BenchSettings, benchmark: Benchmark, name: str) -> int:
    """Return how many trials a judged scorer runs: one if another trial would be the same.

    RAG-Zeval decodes greedily in the nano world, and an original package that compares embeddings samples nothing.
    """
    greedy = name == JUDGE and benchmark.world == WORLD
    return 1 if greedy or (name in ORIGINALS and ORIGINALS[name].embeds) else settings.judge.trials


def judge_asking(settings: BenchSettings, benchmark: Benchmark, trial: int = 0) -> Asking:
    """Return how RAG-Zeval asks a judge in a trial. Benchmarks of the nano world are judged greedily."""
    judge, nano = settings.judge, settings.nano_eval
    asking = Asking(judge.sampling(trial), judge.variant, structured=judge.structured, patterns=judge.patterns)
    if benchmark.world == WORLD:
        greedy = Sampling(temperature=0.0, top_p=1.0, max_tokens=nano.max_tokens, seed=0)
        return replace(asking, variant=nano.variant, sampling=greedy)
    return asking


def judge_scorer(settings: BenchSettings, benchmark: Benchmark, backend: Backend, trial: int = 0) -> Scorer:
    """Return the scorer that asks this model: RAG-Zeval, or a ranker if the model's card says that it is one."""
    asking = judge_asking(settings, benchmark, trial)
    if is_ranker(asking, backend.card):
        return SftRanker(backend, asking.sampling)
    return open_scorer(JUDGE, Models(judge=backend), asking)


def _original_jobs(
    settings: BenchSettings, benchmarks: list[Benchmark], spec: str, backend: Backend, leave_out: LeaveOut
) -> Iterator[ScoringJob]:
    """Yield the jobs of the original packages by one model."""
    for name in (name for name in settings.judged_scorers if name in ORIGINALS):
        original = ORIGINALS[name]
        embedder = _open_embedder(settings) if original.embeds else None
        if not isinstance(backend, Endpoint) or not isinstance(embedder, Endpoint | None):
            leave_out(f"{name} by {spec}: an original package can only ask endpoints")
            continue
        if not original.is_installed:
            leave_out(f"{name}: its environment is missing; run `make {original.environment}/.ready`")
            continue
        cache = Path(settings.out_dir) / ORIGINAL_REPLIES
        for benchmark in benchmarks:
            if has_what_it_needs(benchmark, original, leave_out):
                for trial in range(trials_of(settings, benchmark, name)):
                    scorer = OriginalScorer(name, backend, embedder, cache, settings.judge.timeout, trial)
                    yield ScoringJob(benchmark, scorer, spec, trial)


def has_what_it_needs(benchmark: Benchmark, measure: Measure | Original, leave_out: LeaveOut) -> bool:
    """Whether the examples of a benchmark have what a measure needs. If not, it is left out."""
    missing = missing_everywhere(benchmark.examples, measure.needs)
    if isinstance(measure, Measure) and measure.only and not any(map(measure.only[1], benchmark.examples)):
        missing.append(measure.only[0])
    if missing:
        leave_out(f"{benchmark.name}, {measure.name}: the benchmark has no {' and no '.join(missing)}")
    return not missing


def _open_embedder(settings: BenchSettings) -> Embedder:
    assert settings.embeddings.model is not None  # `check_models` has checked it
    calls = {**settings.judge.calls, "api_key_env": settings.embeddings.api_key_env, "extra_body": None}
    return open_embedder(settings.embeddings.model, **calls)
