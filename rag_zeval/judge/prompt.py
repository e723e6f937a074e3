"""The judge's prompt. Its variants differ in the fields of the trajectory and in their order.

One prompt, `ranking-only`, asks for a ranking instead: it belongs to the SFT ranker, a baseline of the paper.

Question, reference and candidates are one JSON object in the prompt. A JSON string cannot end early, so no answer or
passage can start another candidate or leave its place. Nor can it contain a control token of a chat template: what may
begin one (see _CONTROL) is written as a JSON escape, which a judge reads as the same character.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rag_zeval.errors import InputError
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import without_surrogates

FOLDER = Path(__file__).parent / "prompts"
INPUTS = "{inputs}"
CRITERIA = "{criteria}"  # placeholder for the text of a criteria file (scorers.criteria_file)
# Where a control token may begin. tests/hostile/control_tokens.yaml lists those of over 50 families of models.
_CONTROL = re.compile(
    r"""  <  (?! \s | = | [\d.][\d.,]* (?![\w.,>]) )           # `</s>`, `<|im_end|>`, `<b>`; not `< 5`, `<=` or `<0.05`
    | \[ (?= [|@]                                          # `[|user|]`, `[@BOS@]`
            | /? (?: [a-z]* [A-Z_] [A-Z0-9_ ]+              # `[/INST]`, `[gMASK]`, `[BEGIN FINAL RESPONSE]`
                   | [a-zA-Z0-9]* _ \w*                     # `[start_header_id]`
                   | [a-zA-Z]{2,} \d+ ) \]                  # `[unused9]`; not `[9]`, `[sic]` or `[i]`
            | [\w!]{0,8} ~ [\w!~]{0,8} \[ )                 # `[e~[`
    | \] (?= [\w!]{0,8} ~ [\w!~]{0,8} [][] )               # `]~b]`, `]!p~[`
    | [|｜] (?= [A-Z_]{4,} [|｜] )                          # `|||IP_ADDRESS|||`, `｜DSML｜`""",
    re.VERBOSE,
)
EVIDENCE = "grounding_evidence"


@dataclass(frozen=True)
class Prompt:
    """A prompt text, `<folder>/<name>.txt`. Its placeholder INPUTS is replaced by the question and the other inputs."""

    folder: ClassVar[Path] = FOLDER
    name: str

    @cached_property
    def template(self) -> str:
        text = (self.folder / f"{self.name}.txt").read_text(encoding="utf-8").strip()
        assert text.count(INPUTS) == 1, f"prompt {self.name} must hold {INPUTS} once"
        return text

    def message(self, inputs: str) -> dict[str, str]:
        """Return the user's message that asks about these inputs (see `inputs_json`)."""
        before, after = self.template.split(INPUTS)
        return {"role": "user", "content": before + inputs + after}

    @property
    def hashed(self) -> str:
        """The text that decides `prompt_hash`."""
        return self.template

    @property
    def prompt_hash(self) -> str:
        """The first 16 hex digits of the sha256 of `hashed`. They are written into every result file."""
        return hashlib.sha256(self.hashed.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Variant(Prompt):
    """A prompt for trajectories: the fields of each claim in order, and whether the judge repeats each answer."""

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
    """Return the variant with this name. Raises InputError for an unknown name, and for the prompt of the ranker."""
    if name == RANKING.name:
        raise InputError(f"prompt '{name}' asks for a ranking, not for claims: only the benchmarks can read it")
    if name not in VARIANTS:
        raise InputError(f"unknown prompt variant '{name}'; choose from: {', '.join(VARIANTS)}")
    return VARIANTS[name]


def judge_inputs(question: str, reference: str, answers: Sequence[str]) -> str:
    """Return the JSON object of the prompt. `json.loads` restores the texts, except that lone surrogates are replaced.

    Raises InputError unless there are 1 to 26 answers.
    """
    if not 1 <= len(answers) <= len(LETTERS):
        raise InputError(f"{len(answers)} candidate answers: between 1 and {len(LETTERS)} can be judged at once")
    candidates = dict(zip(LETTERS, answers, strict=False))
    return inputs_json({"question": question, "reference": reference, "candidates": candidates})


def inputs_json(inputs: Mapping[str, Any]) -> str:
    """Return inputs as JSON for a prompt. No text in it can leave its string or contain a control token."""
    text = without_surrogates(json.dumps(inputs, ensure_ascii=False))
    return _CONTROL.sub(lambda start: f"\\u{ord(start[0]):04x}", text)


def judge_messages(variant: str, question: str, reference: str, answers: Sequence[str]) -> list[dict[str, str]]:
    """Return the chat messages (one, from the user) that ask for the evaluation of 1 to 26 candidate answers.

    variant: any name in PROMPTS. Raises InputError for an unknown one or a wrong number of answers.
    """
    prompt = PROMPTS.get(variant) or find_variant(variant)
    return [prompt.message(judge_inputs(question, reference, answers))]
