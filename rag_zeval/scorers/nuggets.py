"""AutoNuggetizer (Pradeep et al. 2024, arXiv:2411.09607), after open-rag-eval 0.3.0 (its metrics/autonugget_metric.py).

Nuggets are facts of a few words that an answer should contain. The judge writes them from the retrieved chunks, labels
each vital or okay, and looks for them in the answer. All values are in [0, 1]. If there are no chunks, the context is
a reference that the example gives itself.

Known differences:

- The prompts are in our words. They show the answer with its citations, such as [1]. The original removes them.
- Creation ends when a call changes nothing, because the next call would be the same.
- More than MOST nuggets, and missing or extra labels, are a failure. A repeated nugget counts once.
- The original counts at least one okay nugget, so its weighted score stays below 1 if all are vital. Here the score is
  divided by the actual weights.
- If no nugget is vital, the original's vital score is 0. Here there is no score.
- If the context has no fact, the original compares the answer with "not enough information". After an exception it
  writes a neutral 0.5. Here there is no score in both cases.
"""

from collections.abc import Sequence
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import given, texts_of
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.values import a_list, a_text
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, labels_of
from rag_zeval.scorers.score import Failed
from rag_zeval.scorers.umbrela import UMBRELA, grades_of

CREATE, IMPORTANCE = ScorerPrompt("nuggets_create"), ScorerPrompt("nuggets_importance")
ASSIGNMENT = ScorerPrompt("nuggets_assignment")
CONTEXT = "chunks or reference"
RELATED = 1  # least UMBRELA grade of a chunk that nuggets are made from
CREATIONS = 5  # most calls, each of which improves the nuggets of the one before
MOST = 30  # most nuggets created
KEPT = 20
NUGGETS_A_CALL = 10
VITAL, OKAY = "vital", "okay"
SUPPORT = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
OKAY_WEIGHTS = {"all": 1.0, "vital": 0.0, "weighted": 0.5}  # weight of an okay nugget by score; a vital one has 1


async def _context(judge: Judge, example: Example) -> list[str]:
    """Return the texts that nuggets are made from. Raises Failed if no chunk is related to the question."""
    if given(example, "chunks") is None:
        return [*texts_of(example, CONTEXT)]
    grades = await grades_of(judge, example.question, example.chunks)
    related = [chunk for chunk, grade in zip(example.chunks, grades, strict=True) if grade >= RELATED]
    if not related:
        raise Failed("no chunk is related to the question")
    return related


async def nuggets_of(judge: Judge, question: str, context: Sequence[str]) -> list[str]:
    """Return the distinct nuggets of a context, at most MOST (up to CREATIONS calls). Raises Failed if it has none."""
    nuggets: list[str] = []
    for _ in range(CREATIONS):
        before = nuggets
        nuggets = await judge.ask(
            CREATE, _read_nuggets, question=question, context=context, nuggets=before, at_most=MOST
        )
        if not nuggets:
            raise Failed("no nuggets in the context")
        if len(nuggets) == MOST or nuggets == before:
            break
    return nuggets


def _read_nuggets(value: Any) -> list[str]:
    nuggets = list(dict.fromkeys(a_text(one) for one in a_list(value["nuggets"])))
    if len(nuggets) > MOST:
        raise Unreadable(f"{len(nuggets)} nuggets, more than {MOST}")
    return nuggets


def mean_support(vital: Sequence[bool], support: Sequence[float], okay_weight: float) -> float:
    """Return the weighted mean support of nuggets, in [0, 1]. A vital nugget has weight 1, an okay one `okay_weight`.

    Raises Failed if all weights are 0.
    """
    weights = [1.0 if one else okay_weight for one in vital]
    if not any(weights):
        raise Failed("no vital nuggets")
    return sum(weight * one for weight, one in zip(weights, support, strict=True)) / sum(weights)


def _measure(score: str, strict: bool) -> Measure:
    """Make the measure for one score of OKAY_WEIGHTS. A strict one counts only full support."""

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        question = example.question
        context = await _context(judge, example)
        created = await nuggets_of(judge, question, context)
        importance = await labels_of(
            judge, IMPORTANCE, (VITAL, OKAY), "nuggets", created, NUGGETS_A_CALL, "labels", question=question
        )
        ranked = sorted(zip(created, importance, strict=True), key=lambda pair: pair[1] != VITAL)[:KEPT]
        nuggets = [nugget for nugget, _ in ranked]
        labels = await labels_of(
            judge,
            ASSIGNMENT,
            (*SUPPORT,),
            "nuggets",
            nuggets,
            NUGGETS_A_CALL,
            "labels",
            question=question,
            answer=answer,
        )
        vital = [label == VITAL for _, label in ranked]
        support = [float(SUPPORT[label] == 1) if strict else SUPPORT[label] for label in labels]
        parts = {"nuggets": nuggets, "vital": vital, "labels": labels}
        return Found(mean_support(vital, support, OKAY_WEIGHTS[score]), parts)

    name = f"nuggets_{score}_strict" if strict else f"nuggets_{score}"
    return Measure(name, steps, (UMBRELA, CREATE, IMPORTANCE, ASSIGNMENT), ("answer", CONTEXT))


MEASURES = tuple(_measure(score, strict) for strict in (False, True) for score in OKAY_WEIGHTS)
