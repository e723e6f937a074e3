"""The checked configuration of a run. The error for a wrong value is one line that names its key."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt, model_validator

from rag_zeval.stages.answer_quality import AnswerFilter
from rag_zeval.stages.config import Alphas, Section, Share, Text

NANO = "nano"


class Settings(Section):
    """The keys of `configs/synthesize.yaml`, where they are explained."""

    out_dir: Text
    source: Text
    passage: Literal["long_answer", "page"]
    strict: bool
    split: Literal["train", "dev", "test"] | None
    n_questions: PositiveInt | None
    seed: NonNegativeInt
    answers: Text | None
    model: Text
    chat_template: bool
    mixing: Literal["logits", "probabilities"]
    alphas: Alphas
    max_new_tokens: PositiveInt
    max_sentences: PositiveInt | None
    max_passage_tokens: PositiveInt | None
    batch_size: PositiveInt
    batch_tokens: PositiveInt | None
    dtype: Literal["float32", "bfloat16"]
    device: Literal["auto", "cpu", "cuda"]
    engine: Literal["transformers", "vllm"]
    workers: PositiveInt | None
    address: Literal["local", "auto"]
    embeddings: Text | None
    flag_near_identical: Share
    flag_repetition: Share
    flag_passage: Share

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if self.mixing != "logits" and self.engine == "vllm":
            raise ValueError("config: key 'mixing': engine=vllm mixes logits alone; set engine=transformers")
        if self.workers == 1 and self.address != "local":
            raise ValueError("config: key 'address' is auto, but workers=1 is this process alone: give another number")
        return self

    @property
    def limits(self) -> AnswerFilter:
        """Thresholds of the report's flags, which cover everything that `train` can leave out."""
        return AnswerFilter(
            near_identical=self.flag_near_identical,
            repetition=self.flag_repetition,
            passage=self.flag_passage,
            unfinished=True,
        )

    @property
    def prompt(self) -> str:
        """Kind of prompt for `synthesize.jobs.qa_prompt`."""
        return NANO if self.source == NANO else "two-shot"
