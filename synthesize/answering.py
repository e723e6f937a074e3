"""From questions to rows: prompts, batches, decoding, text. Imported only where torch is already needed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from rag_zeval.decoding import stop_ids
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.world import true_support
from synthesize.cad import Response, batches, decode
from synthesize.fitting import Fitting, loading
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Job:
    question: SourceQuestion
    with_passage: list[int]
    without_passage: list[int]
    refusal: str | None  # why it cannot be answered


class Answerer:
    """A model that answers questions at each alpha of the settings.

    Raises InputError when the folder holds no model that transformers can load, or there is no such device.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.fitting = Fitting(settings)
        self.tokenizer = self.fitting.tokenizer
        self.model = _load(settings)
        self.stops = stop_ids(self.model, self.tokenizer)

    def rows(self, questions: Sequence[SourceQuestion], done: Collection[str]) -> Iterator[Row]:
        """A row for each question whose id is not in `done`: those refused first, then batch by batch.

        Which questions share a batch depends on `questions` and the settings only. A batch with a row missing is
        decoded whole, so that a run that was killed writes what an undisturbed one does.
        """
        jobs = [self._job(question) for question in questions]
        for job in jobs:
            if job.refusal and job.question.id not in done:
                yield _row(job, [], f"failed: {job.refusal}")
        jobs = [job for job in jobs if not job.refusal]
        widths = [len(job.with_passage) + len(job.without_passage) for job in jobs]
        room = 2 * len(self.settings.alphas) * self.settings.max_new_tokens
        for batch in batches(widths, self.settings.batch_size, self.settings.batch_tokens, room):
            group = [jobs[number] for number in batch]
            if any(job.question.id not in done for job in group):
                yield from (row for row in self._answer(group) if row["id"] not in done)

    def _job(self, question: SourceQuestion) -> _Job:
        with_passage, without_passage = (
            self.fitting.prompt(question.question, passage) for passage in (question.passage, None)
        )
        return _Job(question, with_passage, without_passage, self.fitting.refusal(question))

    def _answer(self, group: Sequence[_Job]) -> Iterator[Row]:
        try:
            answers = decode(
                self.model,
                [job.with_passage for job in group],
                [job.without_passage for job in group],
                self.settings.alphas,
                self.settings.max_new_tokens,
                self.stops,
            )
        except RuntimeError as error:  # out of memory, mostly: one question must not take the others with it
            reason = str(error).splitlines()[0]
            if len(group) == 1:
                yield _row(group[0], [], f"failed: {reason}")
                return
            log.warning("%d questions together failed (%s): trying one by one", len(group), reason)
            for job in group:
                yield from self._answer([job])
            return
        for job, responses in zip(group, answers, strict=True):
            yield _row(job, [self._response(job.question, response) for response in responses], "ok")

    def _response(self, question: SourceQuestion, response: Response) -> Row:
        ids = response.ids[:-1] if response.finished else response.ids
        text = self.tokenizer.decode(ids, skip_special_tokens=True).strip()
        return {
            "alpha": response.alpha,
            "text": text,
            "n_tokens": len(response.ids),
            "finished": response.finished,
            "true_support": None if question.facts is None else true_support(text, question.facts),
        }


def _row(job: _Job, responses: list[Row], status: str) -> Row:
    question = job.question
    return {
        "id": question.id,
        "status": status,
        "question": question.question,
        "passage": question.passage,
        "responses": responses,
    }


def _load(settings: Settings) -> Any:
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("config: key 'device' is cuda, but torch finds no GPU")
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    disable_progress_bar()  # ours is enough
    with loading(settings) as path:
        model: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=getattr(torch, settings.dtype), trust_remote_code=False
        )
    return model.to(device).eval()
