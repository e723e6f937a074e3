"""The evaluator: one call judges one to 26 candidate answers against a reference."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example, check_list
from rag_zeval.judge.needs import lacking
from rag_zeval.judge.parser import FormatError, parse_lenient, response_schema
from rag_zeval.judge.prompt import find_variant, judge_messages
from rag_zeval.judge.schema import LETTERS, Trajectory
from rag_zeval.judge.scoring import support_scores
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.folder import STRUCTURED
from rag_zeval.models.language_model import REPLY_SHARE, Backend, Reply, Request, Sampling
from rag_zeval.text import is_blank, without_surrogates

NEEDS = ("answer", "reference")  # what an example must have (`judge.needs`)


@dataclass(frozen=True)
class Evaluation:
    """What the judge says about the answers to one question, and what it cost.

    Attributes:
        id: The id of the example.
        scores: The support of each answer, in [0, 1]; None after a failure, and for an answer that is blank or makes no
            claims.
        status: "ok", "repaired" (the reply was not quite JSON), or "failed: reason" (then the trajectory is None).
        trajectory: The claims of each answer, with quotes, analysis and verdict.
        calls: Requests or generations, retries included; 0 if the reply was cached.
        prompt_tokens: Tokens of the prompt, as the model counts them; None if unknown.
        completion_tokens: The same for the reply.
        cached: Whether the reply came from an earlier call.
        seconds: From the request to the reply. In a batch of a local model, an equal share of the batch's time.
        reply: The model's text, unchanged.
        paid_tokens: Tokens of prompt and reply that are billed; None if unknown.
        bounded: Calls for which `paid_tokens` has an upper bound, because the endpoint reported no token counts.
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

    It shows the judge whole texts. `rag_zeval.evaluate` also splits references and answers that are too long for a
    local judge.

        judge = Evaluator(open_backend("openai:gpt-4o-mini"))
        judge.evaluate("Who wrote it?", reference="Mary Shelley wrote it.", answers=["Shelley did."]).scores

    Args:
        backend: The model, see `open_backend`.
        variant: The prompt, see `judge.prompt`. Default: the one that the checkpoint was trained on, else "paper".
        sampling: Temperature, top-p and the longest reply.
        structured: Whether to send the JSON schema of the trajectory with each request, so that the reply must follow
            it. Default: what the checkpoint's card says, else no.

    Raises:
        InputError: For an unknown variant.
    """

    def __init__(
        self,
        backend: Backend,
        variant: str | None = None,
        sampling: Sampling | None = None,
        structured: bool | None = None,
    ):
        self.backend = backend
        self.structured: bool = backend.card.get(STRUCTURED, False) if structured is None else structured
        self.variant = find_variant(variant or backend.card.get("variant") or "paper")
        self.sampling = sampling or Sampling()
        if backend.card.get("world") == "nano":
            _announce_nano(backend.name)

    def evaluate(self, question: str, reference: str, answers: Sequence[str]) -> Evaluation:
        """Judge 1 to 26 candidate answers to one question.

        reference: one text. Join several contexts by blank lines, as `rag_zeval.evaluate` does. If the judge gives no
        usable reply, the status says why. Raises InputError for another number of answers, for a text that is not a
        string, if the judge cannot be reached or refuses the key, and if the first 20 requests to it failed.
        """
        (evaluation,) = self.evaluate_many([_example(question, reference, answers)])
        return evaluation

    async def aevaluate(self, question: str, reference: str, answers: Sequence[str]) -> Evaluation:
        """As `evaluate`, for async code. Many may run concurrently; `open_backend` says how many requests are open.

        A local model blocks the event loop while it computes. `rag_zeval.aevaluate` never does.
        """
        example = _example(question, reference, answers)
        _check(example)
        return await self.judge(example)

    def request(self, example: Example) -> Request:
        """Return the request that is sent to the model for this example."""
        messages = judge_messages(self.variant.name, example.question, example.reference, example.answers)
        schema = response_schema(len(example.answers), self.variant.name) if self.structured else None
        return Request(tuple(messages), self.sampling, response_schema=schema)

    def fits(self, example: Example) -> bool:
        """Whether the prompt fits the model's window, with room for the reply; True if the window is unknown."""
        return self.backend.max_context is None or self._tokens_beyond_window(self.request(example).messages) is None

    def evaluate_many(self, examples: Iterable[Example]) -> Iterator[Evaluation]:
        """Yield the evaluation of each example as it finishes, in any order. A failure is a status, not an exception.

        An example fails without a call if its reference or all of its answers are blank. Raises InputError before the
        first call for an example with no answers or with more than 26.
        """
        examples = list(examples)
        for example in examples:
            _check(example)
        for _, evaluation in as_finished(self.judge, examples, self.backend.at_once):
            yield evaluation

    async def judge(self, example: Example) -> Evaluation:
        """As `evaluate_many`, for one example that was checked before."""
        evaluation, _ = await self.judge_with_reply(example)
        return evaluation

    async def judge_with_reply(self, example: Example) -> tuple[Evaluation, Reply]:
        """As `judge`, with the model's reply. It says "failed: reason" if no request was sent."""
        request = self.request(example)
        refusal = self._refusal(request.messages, example)
        reply = await self.backend.complete(request) if refusal is None else Reply(None, refusal)
        return self._read(example, reply), reply

    def _refusal(self, messages: tuple[dict[str, str], ...], example: Example) -> str | None:
        """Return why no request is sent: nothing to judge, or a prompt beyond the window (never cut). Else None."""
        missing = lacking(example, NEEDS)
        if all(missing):
            return missing[0]
        beyond = self._tokens_beyond_window(messages)
        if beyond is None:
            return None
        tokens = self.backend.count_tokens([{"role": "user", "content": without_surrogates(example.reference)}])
        prompt, kept = beyond
        return (
            f"failed: reference needs {tokens} tokens, the model's window is {self.backend.max_context} "
            f"(whole prompt {prompt}, reply at least {kept})"
        )

    def _tokens_beyond_window(self, messages: tuple[dict[str, str], ...]) -> tuple[int, int] | None:
        """Return the tokens of the prompt and those kept for the reply if they exceed the window; None if they fit."""
        window, prompt = self.backend.max_context, self.backend.count_tokens(messages)
        if window is None or prompt is None:
            return None  # the endpoint itself rejects a prompt that is too long
        kept = min(self.sampling.max_tokens, window // REPLY_SHARE)
        return None if prompt + kept <= window else (prompt, kept)

    def _read(self, example: Example, reply: Reply) -> Evaluation:
        scores: list[float | None] = [None] * len(example.answers)
        trajectory, status = None, reply.status
        if reply.text is not None and not status.startswith("failed"):
            try:
                trajectory, parsed_by = parse_lenient(
                    reply.text,
                    len(example.answers),
                    self.variant.name,
                    (example.question, example.reference, *example.answers),
                    cut=reply.status == "truncated",
                )
                status = "ok" if parsed_by == "strict" else parsed_by
            except FormatError as error:
                status = f"failed: {reply.why_unread('format', error)}"
        if trajectory is not None:
            trajectory = tuple(  # claims that are said to be in a blank answer are made up
                replace(candidate, atomic_claims=()) if is_blank(answer) else candidate
                for candidate, answer in zip(trajectory, example.answers, strict=True)
            )
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
    check_list("answers", answers)
    return Example("", question, reference, tuple(answers))


def _check(example: Example) -> None:
    if not 1 <= len(example.answers) <= len(LETTERS):
        of = f"example '{example.id}': " if example.id else ""
        raise InputError(f"{of}answers: must be 1 to {len(LETTERS)}, found {len(example.answers)}")


@cache
def _announce_nano(name: str) -> None:
    print(
        f"note: {name} is the nano judge: it knows only its generated world, "
        "and its scores of any other text mean nothing",
        file=sys.stderr,
    )
