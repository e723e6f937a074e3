"""The judge's prompt, in variants that differ in which fields the trajectory has and in what order.

Question, reference and candidates stand in the prompt as one JSON object. A JSON string cannot end early, so no
answer or passage, whatever it contains, can open another candidate or leave its place; `<|` is escaped as well, so
none can spell a chat template's control token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.schema import LETTERS

PROMPTS = Path(__file__).parent / "prompts"
INPUTS = "{inputs}"


@dataclass(frozen=True)
class Variant:
    """What a trajectory of this variant holds: the fields of each claim in order, and whether answers are echoed."""

    name: str
    claim_fields: tuple[str, ...]
    echo_answer: bool

    @property
    def has_evidence(self) -> bool:
        return "grounding_evidence" in self.claim_fields

    @property
    def template(self) -> str:
        return _template(self.name)

    @property
    def prompt_hash(self) -> str:
        """First 16 hex digits of the sha256 of the prompt text: goes into every result file."""
        return hashlib.sha256(self.template.encode()).hexdigest()[:16]


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("paper", ("claim", "is_supported", "grounding_evidence", "analysis"), echo_answer=True),
        Variant("verdict-last", ("claim", "grounding_evidence", "analysis", "is_supported"), echo_answer=True),
        Variant("compact", ("claim", "grounding_evidence", "analysis", "is_supported"), echo_answer=False),
        Variant("no-evidence", ("claim", "is_supported", "analysis"), echo_answer=True),  # paper, Table 5
    )
}


def find_variant(name: str) -> Variant:
    """The variant of that name. Raises InputError listing the names there are."""
    if name not in VARIANTS:
        raise InputError(f"prompt variant '{name}' does not exist; there is: {', '.join(VARIANTS)}")
    return VARIANTS[name]


@cache
def _template(name: str) -> str:
    text = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").strip()
    assert text.count(INPUTS) == 1, f"prompt {name} must hold {INPUTS} once"
    return text


def judge_inputs(question: str, reference: str, answers: Sequence[str]) -> str:
    """The JSON object of the prompt: `json.loads` gives back exactly the question, reference and answers put in."""
    if not 1 <= len(answers) <= len(LETTERS):
        raise InputError(f"{len(answers)} candidate answers: between 1 and {len(LETTERS)} can be judged at once")
    candidates = dict(zip(LETTERS, answers, strict=False))
    inputs = {"question": question, "reference": reference, "candidates": candidates}
    return json.dumps(inputs, ensure_ascii=False).replace("<|", "\\u003c|")


def judge_messages(variant: str, question: str, reference: str, answers: Sequence[str]) -> list[dict[str, str]]:
    """Chat messages (one, from the user) that ask for the evaluation of 1 to 26 candidate answers.

    Raises InputError for an unknown variant or a wrong number of answers.
    """
    before, after = find_variant(variant).template.split(INPUTS)
    return [{"role": "user", "content": before + judge_inputs(question, reference, answers) + after}]
