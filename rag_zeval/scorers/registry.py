"""Every scorer, by the name that `scorers=[...]` takes, and what it needs. A new one is a module, and a line here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from rag_zeval.files import read_json
from rag_zeval.judge.needs import ANSWERS, NOUNS, OR
from rag_zeval.scorers import (
    answered,
    ares,
    ccrs,
    citations,
    embedding_similarity,
    is_correct,
    nuggets,
    openeval,
    ragas,
    ragchecker,
    trulens,
    umbrela,
)
from rag_zeval.scorers.asking import Measure
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.bleu import Bleu
from rag_zeval.scorers.checked_claims import CheckedClaims
from rag_zeval.scorers.checked_sentences import CheckedSentences
from rag_zeval.scorers.hhem import Hhem
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.rouge_l import RougeL
from rag_zeval.scorers.score import Scorer
from rag_zeval.scorers.word_rule import WordMajority, WordRule

TEXT_SCORERS: dict[str, type[Scorer]] = {scorer.name: scorer for scorer in (Bleu, RougeL, WordRule, WordMajority)}
CHECKER_SCORERS = (Hhem.name, CheckedSentences.name, CheckedClaims.name)  # ask a model of entailment
JUDGE = RagZeval.name  # run once per model, as are the measures that ask a judge
FAMILIES = (
    ragas, ragchecker, trulens, ares, openeval, umbrela, nuggets, citations, answered, ccrs, is_correct,
    embedding_similarity,
)  # fmt: skip
MEASURES: dict[str, Measure] = {measure.name: measure for family in FAMILIES for measure in family.MEASURES}
SCORERS = (*TEXT_SCORERS, BertScore.name, *CHECKER_SCORERS, JUDGE, *MEASURES)

MODELS: dict[type[Scorer], str] = {  # of the scorers that are no measures
    BertScore: "a folder of weights",
    Hhem: "a claim checker",
    CheckedSentences: "a claim checker",
    CheckedClaims: "a claim checker, a judge",
    RagZeval: "a judge",
}
COSTS = Path(__file__).with_name("costs.json")
NEEDS: dict[str, tuple[str, ...]] = {  # of every scorer, see `judge.needs`
    **{name: scorer.needs for name, scorer in TEXT_SCORERS.items()},
    **{scorer.name: scorer.needs for scorer in MODELS},
    **{name: measure.needs for name, measure in MEASURES.items()},
}


class Line(NamedTuple):
    """A scorer's name, the method it belongs to, what it needs besides question and answer, what it asks.

    calls, tokens: for a question with two answers of four sentences and five chunks, by a judge that goes by the
    letter; None where nothing is asked. `python -m experiments.timing.call_costs` measures them.
    """

    name: str
    method: str
    needs: str
    calls: int | None
    tokens: int | None


def overview() -> list[Line]:
    """A line for every scorer of the registry, in its order."""
    scorers = [(name, scorer.__module__, "no model") for name, scorer in TEXT_SCORERS.items()]
    scorers += [(scorer.name, scorer.__module__, models) for scorer, models in MODELS.items()]
    scorers += [(measure.name, family.__name__, _models(measure)) for family in FAMILIES for measure in family.MEASURES]
    costs: dict[str, list[int | None]] = read_json(COSTS)
    return [
        Line(name, _title(module), _needs(name, models), *costs.get(name, (None, None)))
        for name, module, models in scorers
    ]


def _title(module: str) -> str:
    return (sys.modules[module].__doc__ or "").partition("\n")[0].rstrip(".")


def _models(measure: Measure) -> str:
    models = {"a judge": measure.prompts, "an embedding model": measure.embeds}
    return ", ".join(name for name, needed in models.items() if needed)


def _needs(name: str, models: str) -> str:
    needs = [models]
    for need in NEEDS[name]:
        if need not in ANSWERS:
            needs.append(" or ".join(f"the {NOUNS[field]}" for field in need.split(OR)))
    measure = MEASURES.get(name)
    if measure is not None and measure.only is not None:
        needs.append(measure.only[0])
    return ", ".join(needs)


def lower_is_better(metric: str) -> bool:
    """Whether better answers have lower values of this metric: a scorer's name, or `scorer@what it judged by`."""
    measure = MEASURES.get(metric.partition("@")[0])
    return measure is not None and measure.lower_is_better
