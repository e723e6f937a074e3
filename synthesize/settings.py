"""The configuration of a run, checked: a wrong value is one line that names its key."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.stages.answer_quality import AnswerFilter
from synthesize.natural_questions import LONG_ANSWER, PAGE
from synthesize.sources import NANO, SPLITS

TRANSFORMERS, VLLM = "transformers", "vllm"
ENGINES = (TRANSFORMERS, VLLM)
DTYPES = ("float32", "bfloat16")
DEVICES = ("auto", "cpu", "cuda")
LOCAL = "local"
ADDRESSES = (LOCAL, "auto")


@dataclass(frozen=True)
class Settings:
    """The keys of `configs/synthesize.yaml`, where they are explained."""

    out_dir: str
    source: str
    passage: str
    strict: bool
    split: str
    n_questions: int | None
    seed: int
    model: str
    chat_template: bool
    alphas: list[float]
    max_new_tokens: int
    max_passage_tokens: int | None
    batch_size: int
    batch_tokens: int | None
    dtype: str
    device: str
    engine: str
    workers: int | None
    address: str
    flag_near_identical: float
    flag_repetition: float
    flag_passage: float

    @property
    def limits(self) -> AnswerFilter:
        """What the report flags: everything that `train` can leave out."""
        return AnswerFilter(True, self.flag_near_identical, self.flag_repetition, self.flag_passage, True)

    @property
    def prompt(self) -> str:
        return NANO if self.source == NANO else "two-shot"


def _whole(low: int) -> tuple[Callable[[Any], bool], str]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= low, f"a whole number from {low}"


def _or_null(check: tuple[Callable[[Any], bool], str]) -> tuple[Callable[[Any], bool], str]:
    return lambda v: v is None or check[0](v), f"{check[1]}, or null"


def _one_of(names: tuple[str, ...]) -> tuple[Callable[[Any], bool], str]:
    return lambda v: v in names, f"one of {', '.join(names)}"


def _is_alpha_list(value: Any) -> bool:
    numbers = isinstance(value, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    return numbers and bool(value) and all(map(math.isfinite, value)) and len({float(v) for v in value}) == len(value)


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


_TEXT = (lambda v: isinstance(v, str) and bool(v), "text")
_TRUE_OR_FALSE = (lambda v: isinstance(v, bool), "true or false")
_LIMIT = (_is_limit, "a number above 0 and at most 1")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "out_dir": _TEXT,
    "source": _TEXT,
    "passage": _one_of((LONG_ANSWER, PAGE)),
    "strict": _TRUE_OR_FALSE,
    "split": _one_of(SPLITS),
    "n_questions": _or_null(_whole(1)),
    "seed": _whole(0),
    "model": _TEXT,
    "chat_template": _TRUE_OR_FALSE,
    "alphas": (_is_alpha_list, "a list of different numbers, such as [0, -0.5]"),
    "max_new_tokens": _whole(1),
    "max_passage_tokens": _or_null(_whole(1)),
    "batch_size": _whole(1),
    "batch_tokens": _or_null(_whole(1)),
    "dtype": _one_of(DTYPES),
    "device": _one_of(DEVICES),
    "engine": _one_of(ENGINES),
    "workers": _or_null(_whole(1)),
    "address": _one_of(ADDRESSES),
    "flag_near_identical": _LIMIT,
    "flag_repetition": _LIMIT,
    "flag_passage": _LIMIT,
}


def read_settings(config: dict[str, Any]) -> Settings:
    """Settings from a plain dict of the configuration. Raises InputError naming the key whose value does not fit."""
    for key, (fits, wanted) in _CHECKS.items():
        if not fits(config[key]):
            raise InputError(f"config: key '{key}' must be {wanted}, found {config[key]!r}")
    if config["workers"] == 1 and config["address"] != LOCAL:
        raise InputError("config: key 'address' is auto, but workers=1 is this process alone: give another number")
    values = {field.name: config[field.name] for field in fields(Settings)}
    return Settings(**{**values, "alphas": [float(alpha) for alpha in config["alphas"]]})
