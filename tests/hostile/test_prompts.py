"""Whatever a question, reference or answer says, it keeps its place in the prompt and spells no control token."""

import json
import random
from collections.abc import Iterator

import pytest
from findings import Findings
from hostile_texts import CONTROL_TOKENS, texts

from rag_zeval.judge.prompt import INPUTS, PROMPTS, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import without_surrogates

MOST = 4  # candidates


def run(prompts: int, seed: int = 0) -> Findings:
    """Build `prompts` prompts, of all variants in turn, from hostile texts."""
    rng, names = random.Random(seed), list(PROMPTS)
    findings = Findings("prompts", ["prompts", "moved boundaries", "control tokens"])
    for at in range(prompts):
        name = names[at % len(names)]
        shown = list(texts(rng, 2 + rng.randint(1, MOST)))
        for kind in faults_of(name, *shown):
            findings.note(kind, f"prompt {at} of seed {seed} ({name})", [f"{shown!r:.200}"])
        findings.counts["prompts"] += 1
        findings.tell(f"{at + 1} of {prompts}")
    return findings


def faults_of(name: str, question: str, reference: str, *answers: str) -> Iterator[str]:
    """What is wrong with the prompt: its inputs are others than those put in, a control token stands in them."""
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
    if moved:
        yield "moved boundaries"
    if any(token in inputs for token in CONTROL_TOKENS):
        yield "control tokens"


def test_no_prompt_moves_a_boundary_or_holds_a_control_token() -> None:
    findings = run(3_000, seed=1)
    assert findings.faults == []
    assert findings.counts == {"prompts": 3_000, "moved boundaries": 0, "control tokens": 0}


@pytest.mark.parametrize("before", ["", "\\", "\\\\", "<", "[", "]", "|"])
def test_no_control_token_of_any_family_is_spelt(before: str) -> None:
    """`control_tokens.yaml` has the tokens, with the page that each is from."""
    faults = {
        token: found
        for token in CONTROL_TOKENS
        if (found := [*faults_of("compact", before + token, token + before + token, f"{token}{token}", f"a{token}b")])
    }
    assert faults == {}
