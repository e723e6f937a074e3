"""The judge's prompt, in variants that differ in which fields the trajectory has and in what order.

One prompt, `ranking-only`, asks for no trajectory: it is that of the ranker which training is compared with.

Question, reference and candidates stand in the prompt as one JSON object. A JSON string cannot end early, so no
answer or passage, whatever it contains, can open another candidate or leave its place. Nor can one spell a control
token of a chat template: those begin with `<`, as `<|im_end|>` or `</s>`, or with a bracket, as `[INST]`, and both
are written as JSON escapes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from rag_zeval.errors import InputError
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import without_surrogates

FOLDER = Path(__file__).parent / "prompts"
INPUTS = "{inputs}"
# `[INST]`, `[/INST]`, `[TOOL_CALLS]`, `[gMASK]`, `[|user|]`, `[@BOS@]`; no `[1]`, `[sic]` or list of JSON
_CONTROL_BRACKET = re.compile(r"\[(?=[|@]|/?[a-z]*[A-Z_][A-Z0-9_]+\])")
EVIDENCE = "grounding_evidence"


@dataclass(frozen=True)
class Prompt:
    """A prompt text by its name: `<folder>/<name>.txt`, where INPUTS stands for the question and what belongs to it."""

    folder: ClassVar[Path] = FOLDER
    name: str

    @property
    def template(self) -> str:
        return _template(self.folder, self.name)

    def message(self, inputs: str) -> dict[str, str]:
        """The user's message that asks about these inputs (see `inputs_json`)."""
        before, after = self.template.split(INPUTS)
        return {"role": "user", "content": before + inputs + after}

    @property
    def prompt_hash(self) -> str:
        """First 16 hex digits of the sha256 of the prompt text: goes into every result file."""
        return hashlib.sha256(self.template.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Variant(Prompt):
    """What a trajectory of this variant holds: the fields of each claim in order, and whether answers are echoed."""

    claim_fields: tuple[str, ...]
    echo_answer: bool

    @property
    def has_evidence(self) -> bool:
        return EVIDENCE in self.claim_fields


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("paper", ("claim", "is_supported", "grounding_evidence", "analysis"), echo_answer=True),
        Variant("verdict-last", ("claim", "grounding_evidence", "analysis", "is_supported"), echo_answer=True),
        Variant("compact", ("claim", "grounding_evidence", "analysis", "is_supported"), echo_answer=False),
        Variant("verdicts-only", ("claim", "is_supported"), echo_answer=True),  # the paper's Table 5: no evidence
        Variant("no-evidence", ("claim", "is_supported", "analysis"), echo_answer=True),
        Variant("compact-no-evidence", ("claim", "analysis", "is_supported"), echo_answer=False),
    )
}


RANKING = Prompt("ranking-only")  # the candidates' letters from best to worst (paper, Table 5: the SFT ranker)
PROMPTS: dict[str, Prompt] = {**VARIANTS, RANKING.name: RANKING}


def find_variant(name: str) -> Variant:
    """The variant of that name. Raises InputError listing the names there are, and for a prompt without trajectory."""
    if name == RANKING.name:
        raise InputError(f"prompt '{name}' asks for a ranking, not for claims: only the benchmarks can read it")
    if name not in VARIANTS:
        raise InputError(f"unknown prompt variant '{name}'; choose from: {', '.join(VARIANTS)}")
    return VARIANTS[name]


@cache
def _template(folder: Path, name: str) -> str:
    text = (folder / f"{name}.txt").read_text(encoding="utf-8").strip()
    assert text.count(INPUTS) == 1, f"prompt {name} must hold {INPUTS} once"
    return text


def judge_inputs(question: str, reference: str, answers: Sequence[str]) -> str:
    """The JSON object of the prompt: `json.loads` gives back exactly the question, reference and answers put in.

    Lone surrogates alone are replaced.
    """
    if not 1 <= len(answers) <= len(LETTERS):
        raise InputError(f"{len(answers)} candidate answers: between 1 and {len(LETTERS)} can be judged at once")
    candidates = dict(zip(LETTERS, answers, strict=False))
    return inputs_json({"question": question, "reference": reference, "candidates": candidates})


def inputs_json(inputs: Mapping[str, Any]) -> str:
    """Inputs as a prompt may hold them: JSON in which no text can leave its string or spell a control token."""
    text = without_surrogates(json.dumps(inputs, ensure_ascii=False)).replace("<", "\\u003c")
    return _CONTROL_BRACKET.sub(r"\\u005b", text)


def judge_messages(variant: str, question: str, reference: str, answers: Sequence[str]) -> list[dict[str, str]]:
    """Chat messages (one, from the user) that ask for the evaluation of 1 to 26 candidate answers.

    `variant` is any of PROMPTS. Raises InputError for an unknown one or a wrong number of answers.
    """
    prompt = PROMPTS.get(variant) or find_variant(variant)
    return [prompt.message(judge_inputs(question, reference, answers))]
