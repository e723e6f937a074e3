"""What each scorer is and needs, in a line: for users who choose some."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from rag_zeval.scorers.asking import Measure
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.checked_claims import CheckedClaims
from rag_zeval.scorers.hhem import Hhem
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import FAMILIES, TEXT_SCORERS

MODELS: dict[Any, str] = {
    BertScore: "a folder of weights",
    Hhem: "a claim checker",
    CheckedClaims: "a claim checker, a judge",
}
FIELDS = {"truth": "the ground truth", "chunks": "the retrieved chunks"}  # every example has the others


class Line(NamedTuple):
    """A scorer's name, the method it belongs to, and what it needs besides question and answer."""

    name: str
    method: str
    needs: str


def overview() -> list[Line]:
    """A line for every scorer of the registry, in its order."""
    lines = [Line(name, _title(scorer.__module__), "no model") for name, scorer in TEXT_SCORERS.items()]
    lines += [Line(scorer.name, _title(scorer.__module__), needs) for scorer, needs in MODELS.items()]
    lines.append(Line(RagZeval.name, _title(RagZeval.__module__), "a judge"))
    for family in FAMILIES:
        lines += [Line(measure.name, _title(family.__name__), _needs(measure)) for measure in family.MEASURES]
    return lines


def _title(module: str) -> str:
    return (sys.modules[module].__doc__ or "").partition("\n")[0].rstrip(".")


def _needs(measure: Measure) -> str:
    models = ["a judge"] * bool(measure.prompts) + ["an embedding model"] * measure.embeds
    fields = [FIELDS[name] for name in measure.needs if name in FIELDS]
    return ", ".join([*models, *fields, *([measure.only[0]] if measure.only else [])])
