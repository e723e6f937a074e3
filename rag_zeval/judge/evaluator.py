"""The evaluator: one call judges one to 26 candidate answers against a reference."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from rag_zeval.errors import InputError
from rag_zeval.files import locate
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import lacking
from rag_zeval.judge.parser import FormatError, parse_lenient, response_schema
from rag_zeval.judge.prompt import find_variant, judge_messages
from rag_zeval.judge.schema import LETTERS, Trajectory
from rag_zeval.judge.scoring import support_scores
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import REPLY_SHARE, Backend, Reply, Request, Sampling
from rag_zeval.replies.reading import EMPTY, is_empty
from rag_zeval.text import one_line, without_surrogates

NEEDS = ("answer", "reference")  # of an example


@dataclass(frozen=True)
class Evaluation:
    """What the judge found.

    scores: support of each answer in [0, 1], None where there is none (failure, or an answer without claims).
    status: "ok", "repaired" (see `parser.parse_lenient`), or "failed: reason" (then no trajectory).
    calls: attempts made (0 if cached); tokens as the model counts them; reply: the model's text as it came.
    seconds: time of the call; in a batch (a model in this process), the batch's time shared equally.
    paid_tokens, bounded: as of a `Reply`.
    """

    id: str
    scores: list[float | None]
    status: str
    trajectory: Trajectory | None = None
    calls: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached: bool = False
    seconds: float = 0.0
    reply: str | None = None
    paid_tokens: tuple[int, int] | None = None
    bounded: int = 0


class Evaluator:
    """Judges answers with a language model.

    variant: prompt variant (see `judge.prompt`); by default the one the checkpoint was trained on, else "paper".
    structured: send the JSON schema of the trajectory with each request, for a server to decode by.
    Raises InputError for a variant that does not exist.
    """

    def __init__(
        self,
        backend: Backend,
        variant: str | None = None,
        sampling: Sampling | None = None,
        structured: bool = False,
    ):
        self.backend, self.structured = backend, structured
        self.variant = find_variant(variant or backend.card.get("variant") or "paper")
        self.sampling = sampling or Sampling()
        if backend.card.get("world") == "nano":
            _announce_nano(backend.name)

    def evaluate(self, question: str, reference: str, answers: Sequence[str]) -> Evaluation:
        """Judge the candidate answers to one question. Raises InputError unless there are 1 to 26, each a string."""
        (evaluation,) = self.evaluate_many([_example(question, reference, answers)])
        return evaluation

    async def aevaluate(self, question: str, reference: str, answers: Sequence[str]) -> Evaluation:
        """As `evaluate`, for `await`: many of them may be awaited side by side."""
        example = _example(question, reference, answers)
        _check(example)
        return await self.judge(example)

    def request(self, example: Example) -> Request:
        """What the model is asked about this example."""
        messages = judge_messages(self.variant.name, example.question, example.reference, example.answers)
        schema = response_schema(len(example.answers), self.variant.name) if self.structured else None
        return Request(tuple(messages), self.sampling, response_schema=schema)

    def evaluate_many(self, examples: Iterable[Example]) -> Iterator[Evaluation]:
        """Yield the evaluation of each example as it finishes, in any order; a failure is a status, not an exception.

        An example whose reference is blank, or all of whose answers are, fails without a call. Raises InputError,
        before any call, for an example without answers or with more than 26, or with anything but strings.
        """
        examples = list(examples)
        for example in examples:
            _check(example)
        for _, evaluation in as_finished(self.judge, examples, self.backend.at_once):
            yield evaluation

    async def judge(self, example: Example) -> Evaluation:
        """The evaluation of one example, whose answers `evaluate_many` would take. A failure is a status."""
        request = self.request(example)
        refusal = self._refusal(request.messages, example)
        if refusal is not None:
            return Evaluation(example.id, [None] * len(example.answers), refusal)
        return self._read(example, await self.backend.complete(request))

    def _refusal(self, messages: tuple[dict[str, str], ...], example: Example) -> str | None:
        """Why nothing is asked, or None: nothing to judge, or a prompt that does not fit. Nothing is cut to fit."""
        missing = lacking(example, NEEDS)
        if all(missing):
            return missing[0]
        window, prompt = self.backend.max_context, self.backend.count_tokens(messages)
        if window is None or prompt is None:
            return None  # the endpoint itself refuses what it cannot hold
        kept = min(self.sampling.max_tokens, window // REPLY_SHARE)
        if prompt + kept <= window:
            return None
        tokens = self.backend.count_tokens([{"role": "user", "content": without_surrogates(example.reference)}])
        return (
            f"failed: reference needs {tokens} tokens, the model's window is {window} "
            f"(whole prompt {prompt}, reply at least {kept})"
        )

    def _read(self, example: Example, reply: Reply) -> Evaluation:
        scores: list[float | None] = [None] * len(example.answers)
        trajectory, status = None, reply.status
        if reply.text is not None and not status.startswith("failed"):
            try:
                trajectory, parsed_by = parse_lenient(
                    reply.text,
                    len(example.answers),
                    self.variant.name,
                    _texts(example),
                    cut=reply.status == "truncated",
                )
                status = "ok" if parsed_by == "strict" else parsed_by
            except FormatError as error:
                status = f"failed: {EMPTY if is_empty(reply.text) else f'format: {one_line(str(error))}'}"
            if reply.status == "truncated" and trajectory is None:
                status = f"failed: reply cut off at {reply.completion_tokens} tokens"
        if trajectory is not None:
            scores = support_scores(trajectory)
        return Evaluation(
            example.id,
            scores,
            status,
            trajectory,
            reply.calls,
            reply.prompt_tokens,
            reply.completion_tokens,
            reply.cached,
            reply.seconds,
            reply.text,
            reply.paid_tokens,
            reply.bounded,
        )


def _example(question: str, reference: str, answers: Sequence[str]) -> Example:
    _check_list("answers", answers)
    return Example("", question, reference, tuple(answers))


def _check_list(name: str, texts: Sequence[str]) -> None:
    if isinstance(texts, str):  # it would be read letter by letter
        raise InputError(f"{name}: must be a list of strings, got one string")


def _check(example: Example) -> None:
    with locate(f"example '{example.id}'"):
        _check_list("answers", example.answers)
        _check_list("chunks", example.chunks)
    if not 1 <= len(example.answers) <= len(LETTERS):
        raise InputError(f"example '{example.id}' has {len(example.answers)} answers, must have 1 to {len(LETTERS)}")
    for text in _texts(example):
        if not isinstance(text, str):
            raise InputError(f"example '{example.id}': expected a string, found {type(text).__name__}")


def _texts(example: Example) -> tuple[str, ...]:
    return (example.question, example.reference, *example.answers)


@cache
def _announce_nano(name: str) -> None:
    print(
        f"note: {name} is the nano judge: it knows only its generated world, "
        "and its scores of any other text mean nothing",
        file=sys.stderr,
    )
