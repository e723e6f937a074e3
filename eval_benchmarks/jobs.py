"""The jobs of a benchmark run, opened from its plan: one for each benchmark, scorer, model (if any) and trial."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from inspect import getfile
from pathlib import Path

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import BothOrders
from eval_benchmarks.model_checks import not_trained_yet
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.originals.scorer import OriginalScorer
from eval_benchmarks.plan import Planned, judge_asking
from rag_zeval.budget import Account, Budget, Price
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, locate
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedder
from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.language_model import Backend
from rag_zeval.models.nli import Checker, open_checker
from rag_zeval.models.open import check_spec, open_backend, open_embedder
from rag_zeval.rows import RowWriter, StoredRows
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import CHECKER_SCORERS, JUDGE, MEASURES, METHODS, TEXT_SCORERS
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.in_windows import plan_parts
from rag_zeval.scoring.opening import Asking, Models, open_scorer
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
    planned: Sequence[Planned],
    checker: Checker | None,
    accounts: Mapping[str, Account],
    leave_out: LeaveOut,
) -> Iterator[ScoringJob]:
    """Yield the jobs of a plan, in its order. A judge is loaded when its first job comes, and only one at a time.

    The rows of a job must be written before the next one is taken, because some jobs need the rows of a judge.
    """
    planned = [one for one in planned if not (one.model and not_trained_yet(one.model))]
    measures = [MEASURES[one.scorer] for one in planned if one.scorer in MEASURES]
    cache = ReplyCache(Path(settings.out_dir) / REPLIES) if measures else None
    with cache or nullcontext():
        embedder = None  # the embedding model; it embeds each text only once
        if cache and any(measure.embeds for measure in measures):
            embedder = CachedEmbedder(_open_embedder(settings), cache)
        models = Models(embedder=embedder, checker=checker, encoder=settings.bert_score.model)
        yield from _unjudged_jobs([one for one in planned if not one.judged], models)
        for spec in dict.fromkeys(one.model for one in planned if one.judged and one.model):
            calls = {**settings.judge.calls, "account": accounts.get(spec)}
            backend = open_backend(spec, processes=settings.judge.processes, **calls)
            own = [one for one in planned if one.judged and one.model == spec]
            cached = CachedBackend(backend, cache) if cache else None
            yield from _judge_jobs(settings, own, backend, replace(models, judge=cached), leave_out)
            del backend, cached  # before the next one is loaded


def _unjudged_jobs(planned: Sequence[Planned], models: Models) -> Iterator[ScoringJob]:
    """Yield the jobs that ask no judge. Each scorer is opened once."""
    scorers: dict[str, Scorer] = {}
    for one in planned:
        scorers |= {scorer.name: scorer for scorer in one.benchmark.shipped}
        if one.scorer not in scorers:
            scorers[one.scorer] = open_scorer(one.scorer, models, Asking())
        yield ScoringJob(one.benchmark, scorers[one.scorer], one.model)


def _judge_jobs(
    settings: BenchSettings, planned: Sequence[Planned], backend: Backend, models: Models, leave_out: LeaveOut
) -> Iterator[ScoringJob]:
    """Yield the jobs that ask this judge. models: those of the measures, which share the cached replies of the judge.

    References of labelled texts that are too long for the judge are judged in pieces. Answers are judged in windows if
    the judge's card limits their length.
    """
    timeout = math.inf if backend.batched else settings.judge.timeout  # rows of a batch wait for each other
    samples = [(one, trial) for one in planned for trial in range(one.trials)]
    for one, trial in samples:
        benchmark, asking = one.benchmark, judge_asking(settings, one.benchmark, trial)
        if one.scorer in MEASURES:
            scorer = open_scorer(one.scorer, models, Asking(settings.judge.sampling(trial), timeout=timeout))
        elif one.scorer == JUDGE:
            scorer = open_scorer(JUDGE, Models(judge=backend), asking)
        elif one.scorer == SftRanker.name:
            scorer = SftRanker(backend, asking.sampling)
        else:
            embedder = _open_embedder(settings) if ORIGINALS[one.scorer].embeds else None
            assert isinstance(backend, Endpoint) and isinstance(embedder, Endpoint | None)  # the plan has no others
            replies = Path(settings.out_dir) / ORIGINAL_REPLIES
            scorer = OriginalScorer(one.scorer, backend, embedder, replies, settings.judge.timeout, trial)
        parts = plan_parts(scorer, benchmark.examples, backend)
        if not benchmark.absolute:
            parts = replace(parts, in_pieces=0)
        job = ScoringJob(benchmark, parts.asked(scorer), one.model, trial)
        yield job
        if parts.in_pieces and one.checked and not trial:
            why = "references are judged in pieces, each with claims of its own"
            leave_out(f"{benchmark.name}, {CheckedClaims.name} by {one.model}: {why}")
        if parts.in_pieces or not (one.checked or one.both_orders):
            continue
        judged = StoredRows(Path(settings.out_dir) / job.file, Scored.from_row)
        if one.checked:
            assert models.checker
            yield replace(job, scorer=CheckedClaims(models.checker, judged, job.scorer.identity))
        if one.both_orders:
            yield replace(job, benchmark=BothOrders(benchmark, judged))


def _open_embedder(settings: BenchSettings) -> Embedder:
    assert settings.embeddings.model is not None  # `check_models` has checked it
    calls = {**settings.judge.calls, "api_key_env": settings.embeddings.api_key_env, "extra_body": None}
    return open_embedder(settings.embeddings.model, **calls)
