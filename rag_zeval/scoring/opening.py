"""Opens scorers by name, with the models that they ask."""

import math
from dataclasses import dataclass, field

from rag_zeval.models.embeddings import Embedder
from rag_zeval.models.language_model import Backend, Sampling
from rag_zeval.models.nli import Checker
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.claim_checkers import CheckedSentences, Hhem
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import JUDGE, TEXT_SCORERS, Named, measure_of
from rag_zeval.scorers.score import Scorer

CHECKED_TEXTS: dict[str, type[Hhem] | type[CheckedSentences]] = {one.name: one for one in (Hhem, CheckedSentences)}


@dataclass(frozen=True)
class Models:
    """The open models of a run; None for those that none of its scorers asks. encoder: a folder of weights."""

    judge: Backend | None = None
    embedder: Embedder | None = None
    checker: Checker | None = None
    encoder: str | None = None


@dataclass(frozen=True)
class Asking:
    """How a judge is asked.

    variant, structured, patterns: settings of the prompt and the replies of `rag_zeval` (see `RagZeval`). timeout:
    seconds after which the other scorers ask nothing more about an answer.
    """

    sampling: Sampling = field(default_factory=Sampling)
    variant: str | None = None
    structured: bool | None = None
    patterns: bool = False
    timeout: float = math.inf


def asks_judge(scorer: Named) -> bool:
    """Whether a scorer asks a judge. `checked_claims` does not: it only reads what a judge has written."""
    return scorer == JUDGE or shares_questions(scorer)


def embeds(scorer: Named) -> bool:
    """Whether a scorer asks an embedding model."""
    measure = measure_of(scorer)
    return measure is not None and measure.embeds


def shares_questions(scorer: Named) -> bool:
    """Whether a scorer asks a judge the same questions as others of its family, so that a cache saves calls."""
    measure = measure_of(scorer)
    return measure is not None and bool(measure.prompts)


def open_scorer(name: Named, models: Models, asking: Asking) -> Scorer:
    """Return the scorer with this name in the registry, of a criteria file, or a user's own, which is open already.

    `models` must hold those that it asks.

    `checked_claims` cannot be opened here, because it is computed from another scorer's rows. Raises InputError for a
    model that cannot be used.

        open_scorer("ragas_faithfulness", Models(judge=open_backend(spec)), Asking())
    """
    measure = measure_of(name)
    if measure is not None:
        judge = models.judge if measure.prompts else None
        return AskingScorer(measure, judge, asking.sampling, models.embedder, asking.timeout)
    if isinstance(name, Scorer):
        return name
    assert isinstance(name, str)
    if name in TEXT_SCORERS:
        return TEXT_SCORERS[name]()
    if name == BertScore.name:
        assert models.encoder is not None
        return BertScore(models.encoder)
    if name in CHECKED_TEXTS:
        assert models.checker is not None
        return CHECKED_TEXTS[name](models.checker)
    assert name == JUDGE and models.judge is not None, name
    return RagZeval(models.judge, asking.variant, asking.sampling, asking.structured, asking.patterns)
