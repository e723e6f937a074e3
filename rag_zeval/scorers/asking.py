"""Lets a scorer ask a judge several questions about one answer.

A scorer's code reads from top to bottom: `claims = await judge.ask(CLAIMS, read_claims, answer=answer)`, then the next
question, which uses the claims. `AskingScorer` runs this for many answers concurrently. Scorers of one family send
equal requests for the same question. They share no memory, but with a cache each request is paid for only once.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import texts_of
from rag_zeval.judge.prompt import Prompt, inputs_json
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.embeddings import Embedder, Vector, cosine
from rag_zeval.models.language_model import Backend, Reply, Request, Sampling
from rag_zeval.replies.asked import Asked
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import READER, read_json, read_text
from rag_zeval.replies.values import a_list, one_of
from rag_zeval.scorers.score import Failed, Score, Scored, Scorer, costs

T = TypeVar("T")


@dataclass(frozen=True)
class ScorerPrompt(Prompt):
    """A prompt of `scorers/prompts`."""

    folder: ClassVar[Path] = Path(__file__).parent / "prompts"


class Judge:
    """Sends a scorer's requests about one example: to a judge (`model`) and to an embedding model (`embedder`).

    A scorer that does not need one of them passes None. sampling: sets max_tokens and the seed. timeout: seconds after
    which every further request fails. `answers` collects all replies and embeddings. `late` is true once a request has
    failed because of the timeout.
    """

    def __init__(
        self, model: Backend | None, embedder: Embedder | None, sampling: Sampling, timeout: float = float("inf")
    ):
        self._model, self._embedder, self._sampling = model, embedder, sampling
        self._end, self._timeout = time.monotonic() + timeout, timeout
        self.answers: list[Reply] = []
        self.late = False

    async def ask(
        self, prompt: Prompt, read: Callable[[Any], T], *, temperature: float = 0.0, trial: int = 0, **inputs: Any
    ) -> T:
        """Send a prompt, and return the result of `read` for the JSON in the reply.

        The prompt shows `inputs` as one JSON object. `reading.read_json` finds the JSON. A truncated reply counts if
        its JSON is complete, with no text before it. `trial` numbers repeated samples of one question. Raises Failed if
        the reply is missing or cannot be read.

            statements = await judge.ask(STATEMENTS, read_statements, question=question, answer=answer)
        """
        reply = await self._reply(prompt, temperature, trial, inputs)
        try:
            return read_json(reply.text or "", read, _asked(prompt, inputs), cut=reply.status == "truncated")
        except Unreadable as error:
            raise Failed(reply.why_unread(prompt.name, error)) from error

    async def ask_text(
        self,
        prompt: Prompt,
        read: Callable[[str], T],
        *,
        spelled: str | None = None,
        temperature: float = 0.0,
        **inputs: Any,
    ) -> T:
        """Send a prompt, and return the result of `read` for the reply as plain text.

        `reading.read_text` prepares the text, and explains `spelled`. A truncated reply never counts. Raises Failed as
        `ask` does.
        """
        reply = await self._reply(prompt, temperature, 0, inputs)
        try:
            if reply.status == "truncated":
                raise Unreadable("the rest is missing")
            return read_text(reply.text or "", read, _asked(prompt, inputs), spelled)
        except Unreadable as error:
            raise Failed(reply.why_unread(prompt.name, error)) from error

    async def embed(self, text: str) -> Vector:
        """Return the text's vector. Raises Failed if there is none."""
        assert self._embedder is not None, "a measure that embeds texts says so"
        self._check_time()
        embedding = await self._embedder.embed(text)
        self.answers.append(embedding)
        vector = embedding.vector
        if vector is None:
            raise Failed(f"embedding: {embedding.status.removeprefix('failed: ')}")
        return vector

    async def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two texts' vectors, in [-1, 1]. Raises Failed if there is none."""
        return similarity_of(*await together(self.embed(first), self.embed(second)))

    async def _reply(self, prompt: Prompt, temperature: float, trial: int, inputs: Mapping[str, Any]) -> Reply:
        assert self._model is not None, "a measure that asks a judge names its prompts"
        self._check_time()
        sampling = replace(self._sampling, temperature=temperature)
        reply = await self._model.complete(Request((prompt.message(inputs_json(inputs)),), sampling, trial))
        self.answers.append(reply)
        if reply.text is None:
            raise Failed(reply.status.removeprefix("failed: "))
        return reply

    def _check_time(self) -> None:
        if time.monotonic() > self._end:
            self.late = True
            raise Failed(f"no score within {self._timeout:g} s")


def _asked(prompt: Prompt, inputs: Mapping[str, Any]) -> Asked:
    return Asked(prompt.template, json.loads(inputs_json(inputs)))  # as the judge was shown them


def similarity_of(first: Vector, second: Vector) -> float:
    """Return the cosine of two vectors, in [-1, 1]. Raises Failed if one is zero or not finite, or lengths differ."""
    value = cosine(first, second) if len(first) == len(second) else None
    if value is None:
        raise Failed("embedding: a vector is zero or not finite, or they differ in length")
    return value


async def together(*questions: Awaitable[T]) -> list[T]:
    """Ask independent questions concurrently, and return their results. If some fail, raise the first failure."""
    results = await asyncio.gather(*questions, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def labels_of(
    judge: Judge,
    prompt: Prompt,
    labels: Sequence[str],
    name: str,
    items: Sequence[Any],
    size: int,
    under: str | None = None,
    **inputs: Any,
) -> list[str]:
    """Return one of the labels for each item, in order. Concurrent calls ask for `size` items each.

    name: what the prompt calls the items. under: the key of the list of labels in the reply; None if the reply is that
    list.
    """

    async def of_part(part: Sequence[Any]) -> list[str]:
        def read(value: Any) -> list[str]:
            listed = value if under is None else value[under]
            return [one_of(label, labels) for label in a_list(listed, len(part))]

        shown: dict[str, Any] = {**inputs, name: part}
        return await judge.ask(prompt, read, **shown)

    parts = [items[at : at + size] for at in range(0, len(items), size)]
    return [label for of_one in await together(*map(of_part, parts)) for label in of_one]


@dataclass(frozen=True)
class Found:
    """A value, and what it was computed from (JSON)."""

    value: float
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Measure:
    """A scorer that `AskingScorer` runs: `steps(judge, example, answer)` sends `prompts` and scores one answer.

    needs, also: as in Scorer. A measure that does not need the "answer" judges the retrieved contexts.
    embeds: whether it embeds texts. A measure without prompts calls no judge. A scorer that calls no model at all is an
    `AnswerScorer`.
    only: what it judges, in words, and a test whether an example has it. A benchmark without such examples is skipped.
    lower_is_better: whether a better answer has a lower value. highest: the largest possible value.
    """

    name: str
    steps: Callable[[Judge, Example, str], Awaitable[Found]]
    prompts: tuple[ScorerPrompt, ...]
    needs: tuple[str, ...]
    also: tuple[str, ...] = ()
    embeds: bool = False
    only: tuple[str, Callable[[Example], bool]] | None = None
    lower_is_better: bool = False
    highest: float = 1.0

    def __post_init__(self) -> None:
        assert self.prompts or self.embeds, f"{self.name} calls no model: write it as an AnswerScorer"

    @property
    def asks(self) -> str:
        """The models that it calls, in words."""
        models = {"a judge": self.prompts, "an embedding model": self.embeds}
        return ", ".join(model for model, asked in models.items() if asked)


def one_question(
    name: str, read: Callable[[Any], Found], prompt: ScorerPrompt | None = None, /, **inputs: str
) -> Measure:
    """Make a measure that calls a judge once for each answer, with the prompt `name` unless another one is given.

    read: computes the value from the JSON in the reply, and raises Unreadable if it does not fit the question. inputs:
    what is shown, by its name in the prompt: "question", or a need (see `judge.needs`).

        one_question("answered", read, question="question", answer="answer")
    """
    asked = prompt or ScorerPrompt(name)

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        known: dict[str, Any] = {"question": example.question, "answer": answer}
        for need in inputs.values():
            if need not in known:
                texts = texts_of(example, need)
                known[need] = texts if need == "chunks" else texts[0]
        return await judge.ask(asked, read, **{key: known[need] for key, need in inputs.items()})

    return Measure(name, steps, (asked,), tuple(need for need in inputs.values() if need != "question"))


class AskingScorer(Scorer):
    """Runs a Measure with a judge (`backend`) and an embedding model (`embedder`), or None if it does not need one.

    sampling: sets max_tokens and the seed; the measure sets its own temperature, and top-p is 1.
    timeout: seconds after which an example gets no further request; a single request has its own limit (`Endpoint`).
    `parts` of a row: "answers" says for each answer what its value was computed from ({} if it has no value).
    """

    def __init__(
        self,
        measure: Measure,
        backend: Backend | None,
        sampling: Sampling,
        embedder: Embedder | None = None,
        timeout: float = float("inf"),
    ):
        self.measure, self.timeout = measure, timeout
        self.name, self.needs, self.also = measure.name, measure.needs, measure.also
        self._backend, self._embedder = backend, embedder
        self._sampling = replace(sampling, temperature=0.0, top_p=1.0)
        self.prompt_hash = " ".join(prompt.prompt_hash for prompt in measure.prompts) or None
        asked = f"{backend.identity} prompts {self.prompt_hash} {self._sampling} reader {READER}" if backend else ""
        self.identity = f"{measure.name} {asked} {embedder.identity if embedder and measure.embeds else ''}"
        self.group = backend.at_once if backend and backend.batched else None

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        model = self._backend or self._embedder
        for _, scored in as_finished(self._score, examples, model.at_once if model else 1):
            yield scored

    async def _score(self, example: Example) -> Scored:
        judge = Judge(self._backend, self._embedder, self._sampling, self.timeout)
        judged = await asyncio.gather(*(self._answer(judge, example, answer) for answer in example.answers))
        scores, parts = (list(column) for column in zip(*judged, strict=True))
        scored = Scored(example.id, tuple(scores), {"answers": parts}, **costs(judge.answers))
        return replace(scored, final=False) if judge.late else scored

    async def _answer(self, judge: Judge, example: Example, answer: str) -> tuple[Score, dict[str, Any]]:
        try:
            found = await self.measure.steps(judge, example, answer)
        except Failed as failure:
            return Score(None, f"failed: {failure}"), {}
        return Score(found.value), dict(found.parts)
