"""Makes scorers of criteria files: YAML files that say what to judge, by which rules, and on which scale.

A judge is called once for each answer. Its reply is {"reason": text, "verdict": "yes" or "no", or a whole number of
the scale}. The value is 1 for yes and 0 for no. On a scale, the lowest number has the value 0 and the highest 1.
`parts` of a row keep the reason, and the verdict as given. docs/criteria.md explains the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from rag_zeval.errors import InputError
from rag_zeval.files import locate
from rag_zeval.judge.prompt import CRITERIA, INPUTS, inputs_json
from rag_zeval.replies.values import a_text, a_whole_number, yes_or_no
from rag_zeval.scorers.asking import Found, Measure, ScorerPrompt, one_question
from rag_zeval.scorers.registry import SCORERS, criteria_path
from rag_zeval.yaml_file import checked, read_yaml

NEEDS_OF = {"contexts": "chunks"}  # inputs with another name than their need (see `judge.needs`)
Input = Literal["question", "answer", "contexts", "truth", "reference"]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Level = Annotated[int, Field(ge=-1000, le=1000)]


class CriteriaExample(BaseModel):
    """An example in a criteria file: inputs, and the verdict that the judge should give."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    inputs: Annotated[
        dict[Input, Words | list[Words]],
        Field(
            description="a text for each input (numbers, yes and no in quotation marks); for contexts, a list of texts"
        ),
    ]
    verdict: Annotated[bool | int, Field(description="yes or no, without quotation marks, or a number of the scale")]
    why: Annotated[Words | None, Field(description="a text")] = None


class Criteria(BaseModel):
    """The content of a criteria file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    purpose: Annotated[Words, Field(description="a sentence that says what is judged")]
    inputs: Annotated[
        list[Input],
        Field(
            min_length=1,
            description="a list of what the judge sees: question, answer, contexts, truth or reference, each once",
        ),
    ]
    rules: Annotated[
        list[Words],
        Field(
            min_length=1,
            description="a list of texts, one for each rule (in quotation marks if it has ': ' in it, or is yes, no, a "
            "number or a date)",
        ),
    ]
    scale: Annotated[
        Literal["yes/no"] | Annotated[dict[Level, Words], Field(min_length=2)],
        Field(
            description="yes/no, or at least two whole numbers from -1000 to 1000 with a text for each, such as "
            "{1: useless, 5: perfect}"
        ),
    ]
    examples: Annotated[list[CriteriaExample], Field(description="a list of examples")] = []

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest number of the scale; None for yes or no."""
        return (min(self.scale), max(self.scale)) if isinstance(self.scale, dict) else None

    @property
    def verdict(self) -> str:
        """What a verdict must be, in words."""
        return '"yes" or "no"' if self.bounds is None else "a whole number from {} to {}".format(*self.bounds)

    @model_validator(mode="after")
    def _check_inputs(self) -> Criteria:
        if len(set(self.inputs)) < len(self.inputs):
            raise ValueError("inputs: name each of them once")
        for number, example in enumerate(self.examples, 1):
            if set(example.inputs) != set(self.inputs):
                names = ", ".join(self.inputs)
                raise ValueError(f"examples.{number}.inputs: must have a text for each of {names}, and no other")
            if any(isinstance(text, list) != (name == "contexts") for name, text in example.inputs.items()):
                raise ValueError(f"examples.{number}.inputs: contexts must be a list of texts, all others a text")
            verdict, bounds = example.verdict, self.bounds
            if isinstance(verdict, bool) != (bounds is None) or (bounds and not bounds[0] <= verdict <= bounds[1]):
                raise ValueError(f"examples.{number}.verdict: must be {self.verdict}".replace('"', ""))
        return self

    def shown(self) -> str:
        """Return the criteria as JSON, as the judge sees them. No text can leave its string or hold a control token."""
        content: dict[str, Any] = {"purpose": self.purpose, "rules": self.rules, "verdict": self.verdict}
        if self.bounds:
            content["scale"] = self.scale
        content["examples"] = [
            {
                "inputs": example.inputs,
                "verdict": example.verdict if self.bounds else "yes" if example.verdict else "no",
                **({"why": example.why} if example.why else {}),
            }
            for example in self.examples
        ]
        return inputs_json(content).replace(INPUTS, f"\\u007b{INPUTS[1:]}")


@dataclass(frozen=True)
class CriteriaPrompt(ScorerPrompt):
    """The prompt `criteria` with the criteria of a file in it. name: the file's name, for messages about replies.

    inputs: what the judge sees, in order, unless an example in the criteria shows that.
    """

    criteria: str
    inputs: tuple[Input, ...] = ()

    @cached_property
    def template(self) -> str:
        return ScorerPrompt("criteria").template.replace(CRITERIA, self.criteria)

    @property
    def hashed(self) -> str:
        return self.template + "".join(f"\n{one}" for one in self.inputs)


def read_criteria(name: str | Path) -> Measure:
    """Make a scorer of a criteria file. Its name is that of the file, without `.yaml`.

    name: a file, or one that ships, such as "relevance". Raises InputError, naming the file and the key, if it is no
    valid criteria file or another scorer has its name.

        evaluate(frame, criteria="cites_source.yaml", model="openai:gpt-4o-mini")
    """
    path = criteria_path(name)
    values = read_yaml(path)
    with locate(path):
        if not re.fullmatch(r"[\w-]+", path.stem):
            raise InputError("its name is the scorer's: rename the file to letters, digits, '-' and '_' alone")
        if path.stem in SCORERS:
            raise InputError(f"there is a scorer '{path.stem}' already: rename the file")
        criteria = checked(Criteria, values)
    shown = any([*example.inputs] == criteria.inputs for example in criteria.examples)
    prompt = CriteriaPrompt(path.stem, criteria.shown(), () if shown else tuple(criteria.inputs))
    inputs = {one: NEEDS_OF.get(one, one) for one in criteria.inputs}
    return one_question(path.stem, partial(_read, criteria.bounds), prompt, **inputs)


def _read(bounds: tuple[int, int] | None, value: Any) -> Found:
    reason, verdict = a_text(value["reason"]), value["verdict"]
    given = yes_or_no(verdict) if bounds is None else a_whole_number(verdict, *bounds)
    low, high = bounds or (0, 1)
    return Found((given - low) / (high - low), {"verdict": given, "reason": reason})
