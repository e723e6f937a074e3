"""Whatever a question, reference or answer says, it keeps its place in the prompt and spells no control token."""

from __future__ import annotations

import json
import random

import pytest
from hostile_texts import CONTROL_TOKENS, texts

from rag_zeval.judge.prompt import INPUTS, PROMPTS, judge_messages, without_surrogates
from rag_zeval.judge.schema import LETTERS

MOST = 4  # candidates
SHOWN = 10  # faults that are told in full


def run(prompts: int, seed: int = 0) -> tuple[dict[str, int | float], list[str]]:
    """Build `prompts` prompts, of all variants in turn, from hostile texts; the counts, and a line for each fault."""
    rng = random.Random(seed)
    counts: dict[str, int | float] = {"prompts": 0, "moved boundaries": 0, "control tokens": 0}
    faults: list[str] = []
    names = list(PROMPTS)
    for at in range(prompts):
        name = names[at % len(names)]
        question, reference, *answers = texts(rng, 2 + rng.randint(1, MOST))
        moved, token = look(name, question, reference, answers)
        counts["prompts"] += 1
        counts["moved boundaries"] += moved
        counts["control tokens"] += token is not None
        if (moved or token is not None) and len(faults) < SHOWN:
            what = "a boundary moved" if moved else f"control token {token}"
            faults.append(f"prompt {at} of seed {seed} ({name}): {what}: {[question, reference, *answers]!r:.200}")
        if (at + 1) % 10_000 == 0:
            print(f"prompts: {at + 1} of {prompts}, {len(faults)} faults", flush=True)
    return counts, faults


def look(name: str, question: str, reference: str, answers: list[str]) -> tuple[bool, str | None]:
    """Whether the prompt's inputs are others than those put in; a control token that stands in them, if one does."""
    [message] = judge_messages(name, question, reference, answers)
    before, after = PROMPTS[name].template.split(INPUTS)
    content = message["content"]
    inputs = content[len(before) : len(content) - len(after)]
    put_in = {
        "question": without_surrogates(question),
        "reference": without_surrogates(reference),
        "candidates": {letter: without_surrogates(answer) for letter, answer in zip(LETTERS, answers, strict=False)},
    }
    try:
        moved = (before + inputs + after, json.loads(inputs)) != (content, put_in)
    except ValueError:
        moved = True
    token = next((token for token in CONTROL_TOKENS if token in inputs), None)
    return moved, token


def test_no_prompt_moves_a_boundary_or_holds_a_control_token() -> None:
    counts, faults = run(3_000, seed=1)
    assert faults == []
    assert counts == {"prompts": 3_000, "moved boundaries": 0, "control tokens": 0}


@pytest.mark.parametrize("token", CONTROL_TOKENS)
@pytest.mark.parametrize("before", ["", "\\", "\\\\", "<", "["])
def test_no_control_token_of_any_family_is_spelt(token: str, before: str) -> None:
    for name in PROMPTS:
        assert look(name, before + token, token + before + token, [f"{token}{token}", before + token]) == (False, None)


def test_the_texts_follow_from_the_seed_and_hold_every_token() -> None:
    made = list(texts(random.Random(5), 4_000))
    assert made == list(texts(random.Random(5), 4_000)) and len(made) == 4_000
    everything = "\n".join(made)
    assert [token for token in CONTROL_TOKENS if token not in everything] == []
