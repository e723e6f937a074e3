"""All scorers by the name that `scorers=[...]` takes, and what they need. A new scorer is a module, and a line here."""

from inspect import getdoc
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from rag_zeval.errors import InputError, nearest
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
from rag_zeval.scorers.claim_checkers import CHECKER, CheckedClaims, CheckedSentences, Hhem
from rag_zeval.scorers.overlap import Bleu, RougeL, StringMatch
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import NO_MODEL, Scorer
from rag_zeval.scorers.word_rule import WordMajority, WordRule

CLASSES: tuple[type[Scorer], ...] = (
    Bleu, RougeL, StringMatch, WordRule, WordMajority, BertScore, Hhem, CheckedSentences, CheckedClaims, RagZeval,
)  # fmt: skip
FAMILIES = (
    ragas, ragchecker, trulens, ares, openeval, umbrela, nuggets, citations, answered, ccrs, is_correct,
    embedding_similarity,
)  # fmt: skip
MEASURES: dict[str, Measure] = {measure.name: measure for family in FAMILIES for measure in family.MEASURES}
EVERY: tuple[type[Scorer] | Measure, ...] = (*CLASSES, *MEASURES.values())
METHODS: dict[str, type[Scorer] | ModuleType] = {scorer.name: scorer for scorer in CLASSES} | {
    measure.name: family for family in FAMILIES for measure in family.MEASURES
}  # the class or module of each of EVERY, whose docstring names the method
NEEDS = {one.name: one.needs for one in EVERY}  # see `judge.needs`
SCORERS = tuple(NEEDS)
TEXT_SCORERS = {scorer.name: scorer for scorer in CLASSES if scorer.asks == NO_MODEL}
CHECKER_SCORERS = tuple(scorer.name for scorer in CLASSES if scorer.asks.startswith(CHECKER))
JUDGE = RagZeval.name  # run once per model, as are the measures that ask a judge
COSTS = Path(__file__).with_name("costs.json")
CRITERIA_FILES = {path.stem: path for path in sorted(Path(__file__).with_name("criteria").glob("*.yaml"))}  # that ship
Named = str | Measure | Scorer  # a scorer of a run: a name of the registry, that of a criteria file, or a user's own


class Line(NamedTuple):
    """A scorer's name, method, needs besides question and answer, and cost.

    calls, tokens: for a question with two answers of four sentences and five chunks, with the rule-based mock judge;
    None if it calls no model. `python -m experiments.timing.call_costs` measures them.
    """

    name: str
    method: str
    needs: str
    calls: int | None
    tokens: int | None


def overview() -> list[Line]:
    """Return a line for every scorer of the registry, in its order, and for each criteria file that ships."""
    costs: dict[str, list[int | None]] = read_json(COSTS)
    lines = [
        Line(one.name, _title(METHODS[one.name]), _needs(one), *costs.get(one.name, (None, None))) for one in EVERY
    ]
    own = "Criteria files, for --criteria: those that ship, and any file of your own"
    return [*lines, *(Line(name, own, "a judge", *costs.get(name, (None, None))) for name in CRITERIA_FILES)]


def _title(method: type[Scorer] | ModuleType) -> str:
    """Return the first line of a docstring, which a class may inherit."""
    return (getdoc(method) or "").partition("\n")[0].rstrip(".")


def _needs(scorer: type[Scorer] | Measure) -> str:
    needs = [need for need in scorer.needs if need not in ANSWERS]
    words = [scorer.asks, *(" or ".join(f"the {NOUNS[field]}" for field in need.split(OR)) for need in needs)]
    if isinstance(scorer, Measure) and scorer.only is not None:
        words.append(scorer.only[0])
    return ", ".join(words)


def measure_of(scorer: Named) -> Measure | None:
    """Return the Measure of a scorer; None for a scorer of another kind."""
    if isinstance(scorer, str):
        return MEASURES.get(scorer)
    return scorer if isinstance(scorer, Measure) else None


def name_of(scorer: Named) -> str:
    """Return the name of a scorer."""
    return scorer if isinstance(scorer, str) else scorer.name


def needs_of(scorer: Named) -> tuple[str, ...]:
    """Return the needs of a scorer, see `judge.needs`."""
    return NEEDS[scorer] if isinstance(scorer, str) else scorer.needs


def criteria_path(name: str | Path) -> Path:
    """Return the path of a criteria file: one that ships, or any ending in .yaml. Raises InputError for other names."""
    name = str(name)
    if name in CRITERIA_FILES:
        return CRITERIA_FILES[name]
    if not name.endswith(".yaml"):
        ship = f"{', '.join(CRITERIA_FILES)}{nearest(name, CRITERIA_FILES)}"
        raise InputError(f"--criteria {name}: name a file that ends in .yaml, or one that ships: {ship}")
    return Path(name)


def lower_is_better(metric: str) -> bool:
    """Whether better answers have lower values of a metric. metric: a scorer's name, or `scorer@reference`."""
    measure = MEASURES.get(metric.partition("@")[0])
    return measure is not None and measure.lower_is_better


def highest_value(metric: str) -> float:
    """Return the highest possible value of a metric, mostly 1. metric: as in `lower_is_better`."""
    measure = MEASURES.get(metric.partition("@")[0])
    return 1.0 if measure is None else measure.highest


def best_value(metric: str) -> float:
    """Return the value of a perfect answer: 0 if lower is better, else the highest possible value."""
    return 0.0 if lower_is_better(metric) else highest_value(metric)
