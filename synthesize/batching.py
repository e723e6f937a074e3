"""Which questions are answered together: the unit of work, and of what a kill can lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_zeval.files import Row
from synthesize.fitting import Fitting
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion


@dataclass(frozen=True)
class Job:
    """A question as token ids of its two prompts; `refusal`: why it cannot be answered, None if it can."""

    question: SourceQuestion
    with_passage: list[int]
    without_passage: list[int]
    refusal: str | None

    def row(self, status: str, responses: Sequence[Row] = ()) -> Row:
        """The line of responses.jsonl that this question gets."""
        question = self.question
        return {
            "id": question.id,
            "status": status,
            "question": question.question,
            "passage": question.passage,
            "responses": list(responses),
        }


Batch = list[Job]


def read_job(fitting: Fitting, question: SourceQuestion) -> Job:
    """The question's two prompts as token ids, and whether they can be answered."""
    with_passage, without_passage = (fitting.prompt(question.question, passage) for passage in (question.passage, None))
    return Job(question, with_passage, without_passage, fitting.refusal(question))


def batches(jobs: Sequence[Job], settings: Settings, batch_tokens: int) -> list[Batch]:
    """The jobs that can be answered, grouped; they depend on nothing else, so every run has the same batches."""
    answerable = [job for job in jobs if not job.refusal]
    widths = [len(job.with_passage) + len(job.without_passage) for job in answerable]
    room = 2 * len(settings.alphas) * settings.max_new_tokens
    return [[answerable[n] for n in group] for group in group_by_width(widths, settings.batch_size, batch_tokens, room)]


def group_by_width(widths: Sequence[int], max_rows: int, max_tokens: int, room: int) -> list[list[int]]:
    """Question numbers in groups of like width, narrowest first; the same widths always give the same groups.

    widths: prompt tokens of each question, both streams; room: tokens a question may grow by. A group holds at most
    `max_rows` questions and `rows * (widest + room) <= max_tokens` cached tokens; a question too wide for that goes
    alone.
    """
    groups: list[list[int]] = []
    for number in sorted(range(len(widths)), key=lambda n: (widths[n], n)):
        rows = len(groups[-1]) if groups else max_rows
        if rows < max_rows and (rows + 1) * (widths[number] + room) <= max_tokens:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
