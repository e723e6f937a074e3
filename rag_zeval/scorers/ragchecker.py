"""RAGChecker (Ru et al. 2024, arXiv:2408.08067), after the packages ragchecker 0.1.9 and refchecker 0.2.17.

A text is taken apart into claims (triplets), and each claim is checked against a text, up to five in a call. Only
"Entailment" counts. All values are in [0, 1].

Known differences: the prompts are in our words and ask for JSON; labels that are missing or too many make a failure
(the original pads with Neutral, which lowers the score, and cuts); an answer, or a ground truth, in which no claim is
found has no score (the original's is 0); nothing a model writes is evaluated as code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import harmonic_mean
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import a_list, a_text, one_of
from rag_zeval.scorers.asking import Failed, Found, Judge, Measure, ScorerPrompt, in_parts, together

CLAIMS, CHECK = ScorerPrompt("ragchecker_claims"), ScorerPrompt("ragchecker_check")
LABELS = ("Entailment", "Neutral", "Contradiction")
CLAIMS_A_CALL = 5
Claim = list[str]
Row = list[bool]  # of each claim, whether a text entails it


async def claims_of(judge: Judge, question: str, text: str, whose: str) -> list[Claim]:
    """The distinct claims of a text (1 call). Raises Failed if there are none."""
    claims: list[Claim] = await judge.ask(CLAIMS, _read_claims, question=question, text=text)
    if not claims:
        raise Failed(f"no claims in the {whose}")
    return claims


def _read_claims(value: Any) -> list[Claim]:
    triplets = [[a_text(part) for part in a_list(triplet, 3)] for triplet in a_list(value)]
    return [list(triplet) for triplet in dict.fromkeys(map(tuple, triplets))]


async def entailed(judge: Judge, question: str, claims: Sequence[Claim], reference: str) -> Row:
    """Of each claim, whether the reference entails it (a call for every five)."""

    async def labels_of(some: Sequence[Claim]) -> list[str]:
        def read(value: Any) -> list[str]:
            return [one_of(label, LABELS) for label in a_list(value, len(some))]

        return await judge.ask(CHECK, read, question=question, reference=reference, claims=some)

    return [label == "Entailment" for label in await in_parts(claims, CLAIMS_A_CALL, labels_of)]


def share(row: Sequence[bool]) -> float:
    """The share of true ones, in [0, 1]."""
    return sum(row) / len(row)


def any_of(rows: Sequence[Row]) -> Row:
    """Of each claim, whether any of the texts entails it (one row a text)."""
    return [any(column) for column in zip(*rows, strict=True)]


@dataclass(frozen=True)
class Checks:
    """What the values are made of: rows of verdicts, one for each text that the claims were checked against.

    correct: the answer's claims by the ground truth; recalled: the ground truth's claims by the answer; supported and
    retrieved: the answer's and the ground truth's claims by each retrieved chunk. Empty where a measure asks for none.
    """

    correct: list[Row] = field(default_factory=list)
    recalled: list[Row] = field(default_factory=list)
    supported: list[Row] = field(default_factory=list)
    retrieved: list[Row] = field(default_factory=list)


def precision(checks: Checks) -> float:
    """The share of the answer's claims that are correct."""
    return share(any_of(checks.correct))


def recall(checks: Checks) -> float:
    """The share of the ground truth's claims that the answer has."""
    return share(any_of(checks.recalled))


def f1(checks: Checks) -> float:
    """Harmonic mean of precision and recall; 0 if one is 0."""
    return harmonic_mean((precision(checks), recall(checks)))


def faithfulness(checks: Checks) -> float:
    """The share of the answer's claims that some chunk entails."""
    return share(any_of(checks.supported))


def claim_recall(checks: Checks) -> float:
    """The share of the ground truth's claims that some chunk entails."""
    return share(any_of(checks.retrieved))


def context_precision(checks: Checks) -> float:
    """The share of chunks that are relevant: that entail a claim of the ground truth."""
    return share([any(row) for row in checks.retrieved])


def context_utilization(checks: Checks) -> float:
    """Of the ground truth's claims that some chunk entails, the share that the answer has; 0 if there are none."""
    used = [has for has, there in zip(any_of(checks.recalled), any_of(checks.retrieved), strict=True) if there]
    return share(used) if used else 0.0


def hallucination(checks: Checks) -> float:
    """The share of the answer's claims that no chunk entails and that are incorrect."""
    return share([not there and not right for there, right in _there_and_right(checks)])


def self_knowledge(checks: Checks) -> float:
    """The share of the answer's claims that no chunk entails and that are correct."""
    return share([not there and right for there, right in _there_and_right(checks)])


def _there_and_right(checks: Checks) -> list[tuple[bool, bool]]:
    return list(zip(any_of(checks.supported), any_of(checks.correct), strict=True))


def noise_sensitivity_in_relevant(checks: Checks) -> float:
    """The share of the answer's claims that are incorrect and that a relevant chunk entails."""
    return share([relevant and not right for (_, right), relevant in _with_relevance(checks)])


def noise_sensitivity_in_irrelevant(checks: Checks) -> float:
    """The share of the answer's claims that are incorrect and that only irrelevant chunks entail."""
    return share([there and not right and not relevant for (there, right), relevant in _with_relevance(checks)])


def _with_relevance(checks: Checks) -> list[tuple[tuple[bool, bool], bool]]:
    """The same, each with whether a relevant chunk entails the claim."""
    relevant = [
        [any(truths) and one for one in row] for row, truths in zip(checks.supported, checks.retrieved, strict=True)
    ]
    return list(zip(_there_and_right(checks), any_of(relevant), strict=True))


ANSWER, TRUTH = "answer", "ground truth"
WHOSE_CLAIMS = {"correct": ANSWER, "recalled": TRUTH, "supported": ANSWER, "retrieved": TRUTH}  # by check
NEEDS = {  # of checks
    "correct": ("answer", "truth"),
    "recalled": ("answer", "truth"),
    "supported": ("answer", "chunks"),
    "retrieved": ("truth", "chunks"),
}


def _measure(value: Callable[[Checks], float], wanted: str, lower_is_better: bool = False) -> Measure:
    """The measure that makes the wanted checks, and its value of them."""
    checks = wanted.split()

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        question, truth = example.question, example.truth or ""
        against = {"correct": [truth], "recalled": [answer], "supported": example.chunks, "retrieved": example.chunks}
        texts = {ANSWER: answer, TRUTH: truth}
        sources = list(dict.fromkeys(WHOSE_CLAIMS[check] for check in checks))
        extracted = await together(*(claims_of(judge, question, texts[whose], whose) for whose in sources))
        claims = dict(zip(sources, extracted, strict=True))

        async def rows(check: str) -> list[Row]:
            return await together(
                *(entailed(judge, question, claims[WHOSE_CLAIMS[check]], text) for text in against[check])
            )

        found = await together(*(rows(check) for check in checks))
        made = dict(zip(checks, found, strict=True))
        return Found(value(Checks(**made)), {"claims": claims, **made})

    needs = dict.fromkeys(need for check in checks for need in NEEDS[check])
    return Measure(
        f"ragchecker_{value.__name__}", steps, (CLAIMS, CHECK), tuple(needs), lower_is_better=lower_is_better
    )


MEASURES = (
    _measure(precision, "correct"),
    _measure(recall, "recalled"),
    _measure(f1, "correct recalled"),
    _measure(faithfulness, "supported"),
    _measure(claim_recall, "retrieved"),
    _measure(context_precision, "retrieved"),
    _measure(context_utilization, "recalled retrieved"),
    _measure(noise_sensitivity_in_relevant, "correct supported retrieved", lower_is_better=True),
    _measure(noise_sensitivity_in_irrelevant, "correct supported retrieved", lower_is_better=True),
    _measure(hallucination, "correct supported", lower_is_better=True),
    _measure(self_knowledge, "correct supported", lower_is_better=True),
)
