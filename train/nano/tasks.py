"""Training samples of the nano base: answering with a passage, answering from memory, and judging.

The judge is imperfect by design. It learns the format, to copy claims and to quote evidence. But in its last lessons
the verdicts on attributes in UNDECIDED are coin flips, so it cannot decide those claims. A shifted verdict threshold
cannot repair that, only reinforcement learning can.

The answerer prefers the passage, but like real models it insists on facts that it remembers well. So answers move from
passage to memory gradually as alpha falls.
"""

import json
import random
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache

from rag_zeval.judge.prompt import find_variant, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.stages import world

VARIANT = "compact"
NO_EVIDENCE = "compact-no-evidence"  # the base also learns this prompt, for the paper's ablation (Table 5)
UNDECIDED = frozenset({"prize", "spouse", "pet"})
# How often an answer from memory is right -> how often memory wins over a passage that contradicts it.
STUBBORN = {0.4: 0.0, 0.7: 0.05, 0.85: 0.1, 0.95: 0.2, 0.98: 0.25}


@dataclass(frozen=True)
class Sample:
    """One chat turn: the user's message and the reply to learn."""

    prompt: str
    reply: str


@cache
def memory_strength(person: str) -> dict[str, float]:
    """Return for each attribute of a remembered person how often the base sees the right value, in (0, 1)."""
    rng = random.Random(f"strength {person}")
    return {key: rng.choice(list(STUBBORN)) for key in world.KEYS}


def answering(rng: random.Random, *, with_passage: bool) -> Sample:
    """Return a question-answering sample. Remembered people are of all splits, because the base must know them all."""
    remembered = not with_passage or rng.random() < 0.6
    people = [p for split in world.REMEMBERED for p in world.remembered_people(split)]
    person = rng.choice(people if remembered else world.new_people("train"))
    asked = world.ask("", person, rng, remembered=remembered, contradict=0.5)
    values = dict(asked.facts)
    if remembered:
        known, strength = world.memory(person), memory_strength(person)
        for key in asked.keys:
            from_memory = rng.random() < (STUBBORN[strength[key]] if with_passage else strength[key])
            if from_memory:
                values[key] = known[key]
            elif not with_passage:
                values[key] = world.other_value(key, known[key], rng)
    prompt = world.answer_prompt(asked.question, asked.passage if with_passage else None)
    return Sample(prompt, world.answer(asked, values))


def judging(
    rng: random.Random,
    candidates: int,
    claims: int = world.FACTS_ASKED,
    variant: str = VARIANT,
    undecided: Set[str] = UNDECIDED,
) -> Sample:
    """Return a judging sample about a person of the train split. See `trajectory` for the verdicts."""
    if rng.random() < 0.7:
        asked = world.ask("", rng.choice(world.new_people("train")), rng, remembered=False, asked=claims)
    else:
        asked = world.ask("", rng.choice(world.remembered_people("train")), rng, remembered=True, asked=claims)
    values = [world.values_with_errors(asked, rng.randint(0, claims), rng) for _ in range(candidates)]
    answers = [world.answer(asked, stated) for stated in values]
    message = judge_messages(variant, asked.question, asked.passage, answers)[0]["content"]
    return Sample(message, trajectory(asked, values, rng, variant, undecided))


def trajectory(
    asked: world.WorldQuestion,
    values: Sequence[world.Facts],
    rng: random.Random,
    variant: str = VARIANT,
    undecided: Set[str] = UNDECIDED,
) -> str:
    """Return the trajectory to learn for candidates that state `values`, as JSON text.

    Claims, evidence and analyses are perfect. Verdicts are true, except that those on attributes in `undecided` are
    coin flips.
    """
    fields = find_variant(variant).claim_fields

    def claim(key: str, stated: str) -> dict[str, object]:
        told = asked.facts[key]
        parts = {
            "claim": world.claim(asked.person, key, stated),
            "grounding_evidence": [asked.sentences[key]],
            "analysis": f"Claim: {stated}. Reference: {told}.",
            "is_supported": rng.random() < 0.5 if key in undecided else stated == told,
        }
        return {field: parts[field] for field in fields}

    return json.dumps(
        [
            {"id": letter, "atomic_claims": [claim(key, stated[key]) for key in asked.keys]}
            for letter, stated in zip(LETTERS, values, strict=False)
        ]
    )
