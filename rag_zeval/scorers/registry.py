"""Every scorer, by the name that `scorers=[...]` takes. A new one is a module beside this, and a line here."""

from __future__ import annotations

from collections.abc import Callable

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
from rag_zeval.scorers.hhem import Hhem
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.rouge_l import RougeL
from rag_zeval.scorers.score import Scorer

TEXT_SCORERS: dict[str, Callable[[], Scorer]] = {"bleu": Bleu, "rouge_l": RougeL}
CHECKER_SCORERS = (Hhem.name, CheckedClaims.name)  # ask a model of entailment
JUDGE = RagZeval.name  # run once per model, as are the measures that ask a judge
FAMILIES = (
    ragas, ragchecker, trulens, ares, openeval, umbrela, nuggets, citations, answered, ccrs, is_correct,
    embedding_similarity,
)  # fmt: skip
MEASURES: dict[str, Measure] = {measure.name: measure for family in FAMILIES for measure in family.MEASURES}
SCORERS = (*TEXT_SCORERS, BertScore.name, *CHECKER_SCORERS, JUDGE, *MEASURES)
