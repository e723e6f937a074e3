"""Instances for grades of chunks, nuggets, citations and attempts to answer: more is decided than in `instances.py`.

Decisions are drawn by seed, not read off the texts.
"""

from __future__ import annotations

import random
from typing import Any

from instances import DEEDS, PEOPLE, PLACES, THINGS

SEED = 30
SIZE = 40
# Kinds, taken in turn.
GRADES = "mixed|all relevant|mixed|none relevant|mixed|mixed|none related|mixed|all relevant".split("|")
NUGGETS = (
    "few|growing|many|all vital|few|none vital|many|nothing found|growing|thirty|few|repeated nugget|many|"
    "label missing|growing|few|over thirty|many"
).split("|")
CITATIONS = (
    "[1][2]|[1, 2]|uncited tail|no citation|[1], [2]|invented source|[1][2]|[1] [2]|[1, 2]|[1]; [2]|uncited tail|"
    "[1][1]|[1], [2]|[1987]|[1][2]|[1]).|[1, 2]|uncited tail"
).split("|")
NUGGET_LABELS = ("support", "partial_support", "not_support")
CITATION_LABELS = ("full_support", "partial_support", "no_support")
MOST, CREATIONS = 30, 5  # nuggets, and calls that make them


def make_graded() -> list[dict[str, Any]]:
    """Instances with texts and, under "decisions", what a judge says.

    grades: of the chunks; nuggets: [text, importance, support by the answer]; rounds: what each creation gives, as
    places in `nuggets` (the last again and again); labels_missing: how many labels of support a reply lacks; parts: of
    the answer, each with the support by the chunks it cites; answered: whether the answer tries to; runs: a scorer's
    values for the question in runs of a system.
    """
    return [_instance(number) for number in range(SIZE)]


def last_round(decisions: dict[str, Any]) -> list[int]:
    """The nuggets that creation ends with: after CREATIONS calls, or as soon as there are MOST."""
    made: list[int] = []
    for made in decisions["rounds"][:CREATIONS]:
        if len(made) >= MOST:
            break
    return made


def _instance(number: int) -> dict[str, Any]:
    rng = random.Random(SEED * 1000 + number)
    place = PLACES[number // 2]
    kind = {
        "grades": GRADES[number % len(GRADES)],
        "nuggets": NUGGETS[number % len(NUGGETS)],
        "citations": CITATIONS[number % len(CITATIONS)],
    }
    facts = _facts(rng, place, 60)
    chunks = [
        " ".join(f"{facts.pop()}." for _ in range(rng.randint(1, 2))) for _ in range(rng.choice((2, 4, 5, 5, 6, 7, 8)))
    ]
    drawn = {"all relevant": (2, 3), "none relevant": (0, 1), "none related": (0,)}.get(kind["grades"], range(4))
    grades = [rng.choice(drawn) for _ in chunks]
    if not any(grades):
        kind["nuggets"] = "nothing found"
    answer, parts = _cited_answer(rng, kind["citations"], facts, len(chunks))
    nuggets = _nuggets(rng, kind["nuggets"], facts)
    runs = [rng.randint(0, 8) / 8 for _ in range(rng.choice((1, 2, *range(3, 8))))]
    decisions = {"grades": grades, **nuggets, "parts": parts, "answered": rng.random() < 0.7, "runs": runs}
    question = f"What happened in {place}?"
    texts = {"question": question, "answer": answer, "chunks": chunks}
    return {"id": f"{number:02}", "kind": kind, **texts, "decisions": decisions}


def _facts(rng: random.Random, place: str, n: int) -> list[str]:
    return [
        f"{rng.choice(PEOPLE)} {rng.choice(DEEDS)} the {rng.choice(THINGS)} of {place} in {year}"
        for year in rng.sample(range(1700, 2000), n)
    ]


def _nuggets(rng: random.Random, kind: str, facts: list[str]) -> dict[str, Any]:
    sizes = {
        "growing": (14, 14),
        "many": (21, 29),
        "thirty": (33, 33),
        "over thirty": (33, 33),
        "nothing found": (0, 0),
    }
    size = rng.randint(*sizes.get(kind, (2, 12)))
    vital = {"all vital": 1.0, "none vital": 0.0}.get(kind, 0.5)
    nuggets = [
        [facts.pop(), "vital" if rng.random() < vital else "okay", rng.choice(NUGGET_LABELS)] for _ in range(size)
    ]
    all_ = list(range(size))
    rounds = {
        "growing": [all_[: 2 * at] for at in range(1, 8)],  # more rounds than calls
        "thirty": [all_[:12], all_[:MOST], all_[3:]],  # the last is not asked for
        "repeated nugget": [[*all_, 0]],
        "nothing found": [],
    }.get(kind, [all_])
    return {"nuggets": nuggets, "rounds": rounds, "labels_missing": int(kind == "label missing")}


def _cited_answer(rng: random.Random, kind: str, facts: list[str], chunks: int) -> tuple[str, list[dict[str, Any]]]:
    """An answer, and its parts with what is decided about each."""
    sentences, parts = [], []
    size = rng.randint(2, 4)
    for at in range(size):
        cited = [str(number) for number in rng.sample(range(1, chunks + 1), rng.randint(1, 2))]
        parts.append({"text": facts.pop(), "support": {number: rng.choice(CITATION_LABELS) for number in cited}})
        sentence = f"{parts[at]['text']} {_mark(kind, cited)}."
        if kind == "no citation":
            sentence = f"{parts[at]['text']}."
        elif kind == "invented source" and at == 0:
            sentence = f"{parts[at]['text']} [{chunks + 1}]."
        elif kind == "[1])." and at == size - 1:
            sentence = f"({sentence})"
        sentences.append(sentence)
    if kind in ("uncited tail", "[1987]"):
        parts.append({"text": facts.pop(), "support": {}})
        sentences.append(f"{parts[-1]['text']}{' [1987]' if kind == '[1987]' else ''}.")
    return " ".join(sentences), parts


def _mark(kind: str, cited: list[str]) -> str:
    if kind == "[1, 2]":
        return f"[{', '.join(cited)}]"
    if kind == "[1][1]":
        cited = [cited[0], *cited]
    between = {"[1], [2]": ", ", "[1] [2]": " ", "[1]; [2]": "; "}.get(kind, "")
    return between.join(f"[{number}]" for number in cited)
