"""RAGChecker (Ru et al. 2024, arXiv:2408.08067), after the packages ragchecker 0.1.9 and refchecker 0.2.17.

One call splits a text into claims (triplets). Each claim is then checked against a text, up to five in a call. Only the
label "Entailment" counts. All values are in [0, 1].

Known differences:

- The prompts are in our words and ask for JSON.
- Missing or extra labels are a failure. The original fills with Neutral, which lowers the score, and drops extra ones.
- A claim without three parts, or with an empty one, is a failure. The original skips it.
- An answer or a ground truth without claims has no score. The original's is 0.
- Nothing that a model writes is evaluated as code.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from statistics import harmonic_mean
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import a_list, a_text
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, labels_of, together
from rag_zeval.scorers.score import Failed

CLAIMS, CHECK = ScorerPrompt("ragchecker_claims"), ScorerPrompt("ragchecker_check")
LABELS = ("Entailment", "Neutral", "Contradiction")
CLAIMS_A_CALL = 5
Claim = list[str]
Verdicts = list[bool]  # for each claim, whether a text entails it


async def claims_of(judge: Judge, question: str, text: str, whose: str) -> list[Claim]:
    """Return the distinct claims of a text (1 call). Raises Failed if there are none."""
    claims: list[Claim] = await judge.ask(CLAIMS, _read_claims, question=question, text=text)
    if not claims:
        raise Failed(f"no claims in the {whose}")
    return claims


def _read_claims(value: Any) -> list[Claim]:
    triplets = [[a_text(part) for part in a_list(triplet, 3, "part")] for triplet in a_list(value)]
    return [list(triplet) for triplet in dict.fromkeys(map(tuple, triplets))]


async def entailed(judge: Judge, question: str, claims: Sequence[Claim], reference: str) -> Verdicts:
    """Return for each claim whether the reference entails it (one call for every five)."""
    shown = {"question": question, "reference": reference}
    labels = await labels_of(judge, CHECK, LABELS, "claims", claims, CLAIMS_A_CALL, **shown)
    return [label == "Entailment" for label in labels]


# The formulas. Their parameters name the checks that they need. A check is an array of booleans that says which claims
# a text entails, for n claims of the answer, m claims of the ground truth, and k chunks:
# correct (n,): the answer's claims by the ground truth; recalled (m,): the ground truth's claims by the answer;
# supported (k, n) and retrieved (k, m): the answer's and the ground truth's claims by each chunk.
# So `supported.any(0)` says which of the answer's claims some chunk entails, and `retrieved.any(1)` which chunks are
# relevant.
FORMULAS: dict[str, Callable[..., float]] = {
    "precision": lambda correct: correct.mean(),
    "recall": lambda recalled: recalled.mean(),
    "f1": lambda correct, recalled: harmonic_mean((float(correct.mean()), float(recalled.mean()))),
    "faithfulness": lambda supported: supported.any(0).mean(),
    "claim_recall": lambda retrieved: retrieved.any(0).mean(),
    "context_precision": lambda retrieved: retrieved.any(1).mean(),
    "context_utilization": lambda recalled, retrieved: recalled[retrieved.any(0)].mean() if retrieved.any() else 0.0,
    "noise_sensitivity_in_relevant": lambda correct, supported, retrieved: (
        ~correct & supported[retrieved.any(1)].any(0)
    ).mean(),
    "noise_sensitivity_in_irrelevant": lambda correct, supported, retrieved: (
        ~correct & supported.any(0) & ~supported[retrieved.any(1)].any(0)
    ).mean(),
    "hallucination": lambda correct, supported: (~correct & ~supported.any(0)).mean(),
    "self_knowledge": lambda correct, supported: (correct & ~supported.any(0)).mean(),
}
NOISE = ("noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant")
LOWER_IS_BETTER = (*NOISE, "hallucination", "self_knowledge")
ONE_TEXT = ("correct", "recalled")  # checks against a single text
ANSWER, TRUTH = "answer", "ground truth"
WHOSE_CLAIMS = {"correct": ANSWER, "recalled": TRUTH, "supported": ANSWER, "retrieved": TRUTH}  # by check
NEEDS = {  # by check
    "correct": ("answer", "truth"),
    "recalled": ("answer", "truth"),
    "supported": ("answer", "chunks"),
    "retrieved": ("truth", "chunks"),
}


def value_of(name: str, checks: Mapping[str, Sequence[Verdicts]]) -> float:
    """Return a formula's value. checks: by name, a row for each text; "correct" and "recalled" have one row."""
    import numpy as np

    arrays = {check: np.array(checks[check]) for check in _checks(name)}
    return float(FORMULAS[name](*(rows[0] if check in ONE_TEXT else rows for check, rows in arrays.items())))


def _checks(name: str) -> list[str]:
    return [*signature(FORMULAS[name]).parameters]


def _measure(name: str) -> Measure:
    """Make the measure that runs the checks of a formula and computes its value."""
    checks = _checks(name)

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        question, truth = example.question, example.truth or ""
        against = {"correct": [truth], "recalled": [answer], "supported": example.chunks, "retrieved": example.chunks}
        texts = {ANSWER: answer, TRUTH: truth}
        sources = list(dict.fromkeys(WHOSE_CLAIMS[check] for check in checks))
        extracted = await together(*(claims_of(judge, question, texts[whose], whose) for whose in sources))
        claims = dict(zip(sources, extracted, strict=True))

        async def rows(check: str) -> list[Verdicts]:
            return await together(
                *(entailed(judge, question, claims[WHOSE_CLAIMS[check]], text) for text in against[check])
            )

        found = await together(*(rows(check) for check in checks))
        made = dict(zip(checks, found, strict=True))
        return Found(value_of(name, made), {"claims": claims, **made})

    needs = dict.fromkeys(need for check in checks for need in NEEDS[check])
    worse = name in LOWER_IS_BETTER
    return Measure(f"ragchecker_{name}", steps, (CLAIMS, CHECK), tuple(needs), lower_is_better=worse)


MEASURES = tuple(map(_measure, FORMULAS))
