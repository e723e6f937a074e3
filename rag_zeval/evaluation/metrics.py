"""Metrics: a scorer and what it judges by, opened by the names that users give."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag_zeval.budget import Account
from rag_zeval.cases.case import REFERENCE, SOURCES, CaseSet
from rag_zeval.errors import InputError, nearest
from rag_zeval.files import Row
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.language_model import Backend, Sampling
from rag_zeval.models.open import SPECS, can_constrain, open_backend, open_embedder

if TYPE_CHECKING:
    from rag_zeval.models.embeddings import Embedder
    from rag_zeval.scorers.score import Scorer
    from rag_zeval.scoring.opening import Models

EXAMPLE = "openai:qwen2.5-7b-instruct@http://localhost:8000/v1"
RAG_ZEVAL, BERT_SCORE, CHECKED_CLAIMS = "rag_zeval", "bert_score", "checked_claims"


@dataclass(frozen=True)
class Judges:
    """The models that scorers ask, and how. `calls`: how endpoints are called, as `open_backend` takes it; account: who
    pays for those of the judge, where there is a limit.

    model, embeddings: specs; claim_checker, bert_score: folders. trials: how often each case is judged.
    """

    model: str | None = None
    variant: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    structured: bool = False
    trials: int = 1
    embeddings: str | None = None
    claim_checker: str | None = None
    bert_score: str | None = None
    calls: Mapping[str, Any] = field(default_factory=dict)
    account: Account | None = None


@dataclass(frozen=True)
class Metric:
    """What stands in a column: a scorer on one source of truth. `trial` numbers the samples of a judge, from 0.

    made_by: what its values depend on besides the example, for its rows. cached: the backend that keeps its replies.
    """

    name: str
    against: str
    scorer: Scorer
    made_by: Row
    trial: int = 0
    cached: CachedBackend | None = None


def scorer_names(given: str | Sequence[str]) -> list[str]:
    """The names in a text, with commas between them, or in a list; each once. Raises InputError if there is none."""
    names = given.split(",") if isinstance(given, str) else map(str, given)
    found = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not found:
        raise InputError("--scorers is empty; `rag-zeval scorers` lists the names")
    return found


def check_scorers(names: Sequence[str], judges: Judges, asking: bool = True) -> None:
    """Raises InputError, before any model is loaded, for a scorer that does not exist or whose model is not named.

    asking: whether a judge will be asked, and so has to be named.
    """
    from rag_zeval.judge.prompt import find_variant
    from rag_zeval.scorers.registry import MEASURES, SCORERS
    from rag_zeval.scoring.opening import CHECKED_TEXTS, asks_judge

    for name in names:
        if name not in SCORERS:
            raise InputError(
                f"--scorers: unknown scorer '{name}'{nearest(name, SCORERS)}; `rag-zeval scorers` lists them"
            )
        if asking and judges.model is None and asks_judge(name):
            raise InputError(f"no judge: add --model with one of {SPECS}, for example --model {EXAMPLE}")
        if judges.embeddings is None and name in MEASURES and MEASURES[name].embeds:
            raise InputError(f"{name} embeds texts: add --embeddings with a folder or an endpoint's model")
        if judges.claim_checker is None and name in (*CHECKED_TEXTS, CHECKED_CLAIMS):
            raise InputError(f"{name} needs a claim checker: add --claim-checker with its folder")
        if judges.bert_score is None and name == BERT_SCORE:
            raise InputError(f"{name} needs an encoder: add --bert-score with its folder")
    if CHECKED_CLAIMS in names and RAG_ZEVAL not in names:
        raise InputError(f"{CHECKED_CLAIMS} checks the claims of {RAG_ZEVAL}: name both in --scorers")
    if judges.variant is not None:
        find_variant(judges.variant)
    if judges.structured and judges.model is not None:
        check_structured(judges.model)


def check_structured(model: str) -> None:
    """Raises InputError if replies should follow a schema and this model's cannot be made to."""
    if not can_constrain(model):
        raise InputError(f"--structured: {model} cannot be forced into a JSON schema; endpoints and vLLM can")


def check_needs(names: Sequence[str], cases: CaseSet) -> None:
    """Raises InputError for a scorer that needs something which no case has, or none together with the rest."""
    from rag_zeval.judge.needs import missing_everywhere
    from rag_zeval.scorers.registry import NEEDS

    examples = [cases.example(at, source) for source in SOURCES for at in range(len(cases.cases))]
    for name in names:
        if missing := missing_everywhere(examples, NEEDS[name]):
            raise InputError(f"{name} needs the {' and the '.join(missing)}, which no case has")


def _by_reference(name: str) -> bool:
    """Whether a scorer judges by the reference, whatever that is; the others look at true answer or chunks."""
    from rag_zeval.scorers.registry import NEEDS

    return REFERENCE in NEEDS[name]


def metric_name(scorer: str, against: str) -> str:
    """`rag_zeval`, where the file itself has a reference; else `rag_zeval@truth`, `rag_zeval@contexts`."""
    return f"{scorer}@{against}" if against != REFERENCE and _by_reference(scorer) else scorer


def places(names: Sequence[str], sources: Sequence[str]) -> list[tuple[str, str]]:
    """(scorer, source) of each metric: scorers that judge by the reference once for every source, others once.

    Those see no reference but one that a case has of its own: contexts that are the reference are no ground truth.
    """
    return [(name, source) for name in names for source in (sources if _by_reference(name) else (REFERENCE,))]


def open_metrics(
    names: Sequence[str],
    sources: Sequence[str],
    judges: Judges,
    cache: ReplyCache | None,
) -> list[Metric]:
    """The metrics of scorers (see `check_scorers`), their models loaded. `checked_claims` is opened by its run.

    Raises InputError for a model that cannot be used.
    """
    from rag_zeval.models.embeddings import CachedEmbedder
    from rag_zeval.models.nli import open_checker
    from rag_zeval.scorers.registry import MEASURES
    from rag_zeval.scoring.opening import CHECKED_TEXTS, Models, asks_judge

    judge: Backend | None = None
    embedder: Embedder | None = None
    if judges.model is not None and any(map(asks_judge, names)):
        judge = open_backend(judges.model, **judges.calls, account=judges.account)
    if any(name in MEASURES and MEASURES[name].embeds for name in names):
        embedder = open_embedder(str(judges.embeddings), **judges.calls)
    if cache is not None:
        judge = CachedBackend(judge, cache) if judge else None
        embedder = CachedEmbedder(embedder, cache) if embedder else None
    checker = open_checker(str(judges.claim_checker), False) if any(name in CHECKED_TEXTS for name in names) else None
    models = Models(judge, embedder, checker, judges.bert_score)
    return [
        _metric(name, source, models, judges, trial)
        for name, source in places(names, sources)
        if name != CHECKED_CLAIMS
        for trial in range(judges.trials if asks_judge(name) else 1)
    ]


def _metric(name: str, against: str, models: Models, judges: Judges, trial: int) -> Metric:
    from rag_zeval.scorers.rag_zeval import RagZeval
    from rag_zeval.scoring.opening import Asking, asks_judge, open_scorer

    sampling = _sampling(judges, trial)
    scorer = open_scorer(name, models, Asking(sampling, judges.variant, judges.structured))
    made_by: Row = {"model": None}
    if asks_judge(name):
        assert models.judge is not None  # checked before
        made_by = {"model": models.judge.name, "sampling": dataclasses.asdict(sampling)}
        if isinstance(scorer, RagZeval):
            made_by |= {"variant": scorer.variant, "structured": judges.structured}
        made_by["prompt_hash"] = scorer.prompt_hash
    made_by["identity"] = scorer.identity
    cached = models.judge if isinstance(models.judge, CachedBackend) and asks_judge(name) else None
    return Metric(metric_name(name, against), against, scorer, made_by, trial, cached)


def _sampling(judges: Judges, trial: int) -> Sampling:
    return dataclasses.replace(judges.sampling, seed=judges.sampling.seed + trial)
