"""Invented questions, answers and chunks, and what a judge decides about them: both sides of a comparison get the same.

Nothing of the repository is imported: recorders run where only the original package is installed. Decisions are drawn
by seed, not read off the texts: what is compared is what scorers make of them.
"""

from __future__ import annotations

import random
from typing import Any

SEED = 20
SPECIAL = (
    "all supported",
    "none supported",
    "answer without claims",
    "ground truth without claims",
    "no claims at all",
    "noncommittal",
    "no relevant chunk",
    "repeated claim",
    "many claims",
)
KINDS = (*SPECIAL, *SPECIAL, *["mixed"] * 12)
MISCOUNTED = {"a judgement missing": -1, "a judgement too many": 1}
NOISY = "many claims, relevant and irrelevant chunks"
LABELS = ("Entailment", "Neutral", "Contradiction")
PLACES = """Arden Bexley Corvane Dunmore Elster Farrow Galway Harrow Ilmen Jarrow Kelso Lorne Marden Norwick Oakham
    Penrith Quorn Ravel Selby Tarvin Ulster Varden Wexcombe Yarrow Zennor Ashby Brigg Calder Dorne Evesham Fleet Garth
    Hexham Ingleby Jervaulx Kirby Leyburn Malton Nidd Ousby Pocklington Reeth Skipton Thirsk""".split()
PEOPLE = "Mira Oskar Ines Tomas Freya Anton Judit Pavel Nora Edgar".split()
DEEDS = "built painted sold repaired bought measured rebuilt described".split()
THINGS = "mill bridge tower chapel harbour library market lighthouse school well".split()
DIMENSIONS = 4  # of the vectors
GUESSES = 3  # questions guessed from an answer


def make_instances() -> list[dict[str, Any]]:
    """One instance for each kind: texts, and under "decisions" what a judge says (see `_decisions`)."""
    return [_instance(number, kind) for number, kind in enumerate(KINDS)]


def make_claims() -> list[dict[str, Any]]:
    """More, for scorers of claims: miscounted ones, whose judge gives one judgement too few, or too many, in each list
    (see `as_given`), and longer ones."""
    kinds = [*MISCOUNTED, *MISCOUNTED, *[NOISY] * 10]
    return [_instance(number, kind) for number, kind in enumerate(kinds, start=len(KINDS))]


def as_given(instance: dict[str, Any], judgements: list[Any]) -> list[Any]:
    """The list as the judge of this instance gives it: a judgement too many is the first one again."""
    return (judgements * 2)[: len(judgements) + instance["decisions"].get("surplus", 0)]


def distinct(claims: list[list[str]]) -> list[list[str]]:
    """The claims without repetitions, in their order."""
    return [list(claim) for claim in dict.fromkeys(map(tuple, claims))]


def statement(claim: list[str]) -> str:
    """A claim as a sentence."""
    return f"{' '.join(claim)}."


def whose(instance: dict[str, Any], text: str) -> str:
    """Which of the two texts with claims this is: "answer" or "truth"."""
    return {instance["answer"]: "answer", instance["truth"]: "truth"}[text]


def decided(claims: list[list[str]], row: list[Any]) -> dict[str, Any]:
    """A row of decisions by the claim, as a sentence."""
    return dict(zip(map(statement, distinct(claims)), row, strict=True))


def labels(instance: dict[str, Any], reference: str) -> dict[str, str]:
    """The labels of the claims that are checked against a text: the ground truth, the answer or a chunk."""
    decisions = instance["decisions"]
    ours, theirs = decisions["answer_claims"], decisions["truth_claims"]
    if reference == instance["truth"]:
        return decided(ours, decisions["correct"])
    if reference == instance["answer"]:
        return decided(theirs, decisions["recalled"])
    at = instance["chunks"].index(reference)
    return decided(ours, decisions["supported"][at]) | decided(theirs, decisions["retrieved"][at])


def _instance(number: int, kind: str) -> dict[str, Any]:
    rng = random.Random(SEED * 1000 + number)
    place = PLACES[number]
    drawn = [_claims(rng, place, rng.randint(1, 5)) for _ in range(2)]
    if kind in ("many claims", NOISY, *MISCOUNTED):
        drawn = [_claims(rng, place, 11), _claims(rng, place, 6)]
    answer_claims, truth_claims = drawn
    if kind == "repeated claim":
        answer_claims = [*answer_claims, answer_claims[0]]
    instance = {
        "id": f"{number:02}",
        "kind": kind,
        "question": f"What happened in {place}?",
        "answer": _text(answer_claims),
        "truth": _text(truth_claims),
        "chunks": [_text(_claims(rng, place, rng.randint(1, 3))) for _ in range(rng.randint(1, 4))],
    }
    if kind in ("answer without claims", "no claims at all"):
        instance["answer"], answer_claims = f"Who could tell what happened in {place}?", []
    if kind in ("ground truth without claims", "no claims at all"):
        instance["truth"], truth_claims = f"Nobody knows about {place}.", []
    decisions = _decisions(rng, kind, instance, distinct(answer_claims), distinct(truth_claims))
    decisions["answer_claims"], decisions["truth_claims"] = answer_claims, truth_claims
    if kind in MISCOUNTED:
        decisions["surplus"] = MISCOUNTED[kind]
    return {**instance, "decisions": decisions}


def _claims(rng: random.Random, place: str, n: int) -> list[list[str]]:
    """Different subjects, predicates and objects."""
    years = rng.sample(range(1700, 2000), n)
    return [[rng.choice(PEOPLE), rng.choice(DEEDS), f"the {rng.choice(THINGS)} of {place} in {year}"] for year in years]


def _text(claims: list[list[str]]) -> str:
    """One to five sentences, each of several claims where there are more than five."""
    size = 1 + (len(claims) - 1) // 5
    parts = [claims[at : at + size] for at in range(0, len(claims), size)]
    return " ".join(f"{' and '.join(' '.join(claim) for claim in part)}." for part in parts)


def _decisions(
    rng: random.Random, kind: str, instance: dict[str, Any], ours: list[list[str]], theirs: list[list[str]]
) -> dict[str, Any]:
    """What a judge says; a row has one item for each DISTINCT claim (ours: the answer's, theirs: the ground truth's).

    correct, recalled: ours by the ground truth and theirs by the answer; supported, retrieved: ours and theirs by each
    chunk; inferred: ours by all chunks; missing: theirs that the answer lacks; attributed: the ground truth's sentences
    by all chunks; useful_for_truth, useful_for_answer: each chunk; guesses: questions behind the answer; vectors: of
    all texts that are compared by one.
    """
    share = {"all supported": 1.0, "many claims": 0.5, NOISY: 0.5, "none supported": 0.0}.get(
        kind, rng.choice([0.2, 0.5, 0.8])
    )
    relevant = 0.0 if kind == "no relevant chunk" else share

    def yes(n: int, share: float) -> list[int]:
        return [int(rng.random() < share) for _ in range(n)]

    def some_labels(n: int, share: float) -> list[str]:
        return [LABELS[0] if one else rng.choice(LABELS[1:]) for one in yes(n, share)]

    chunks = len(instance["chunks"])
    silent = {"noncommittal": [1, 1, 1], "many claims": [1, 0, 1], "repeated claim": [0, 1, 0]}.get(kind, [0] * GUESSES)
    guesses = [
        {"question": f"Guess {at} about {instance['question'].split()[-1]}", "noncommittal": one}
        for at, one in enumerate(silent)
    ]
    compared = [instance["question"], instance["answer"], instance["truth"], *(one["question"] for one in guesses)]
    return {
        "correct": some_labels(len(ours), share),
        "recalled": some_labels(len(theirs), share),
        "supported": [some_labels(len(ours), share) for _ in range(chunks)],
        "retrieved": [
            some_labels(len(theirs), relevant if kind != NOISY else rng.choice([0, 0.5])) for _ in range(chunks)
        ],
        "inferred": yes(len(ours), share),
        "missing": yes(len(theirs), 1 - share),
        "attributed": yes(instance["truth"].count("."), share),
        "useful_for_truth": yes(chunks, relevant),
        "useful_for_answer": yes(chunks, relevant),
        "guesses": guesses,
        "vectors": {text: [rng.randint(-4, 8) / 8 for _ in range(DIMENSIONS)] for text in compared},
    }
