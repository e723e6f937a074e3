"""Kinds of questions: how a model is asked for one, and what is checked before it counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rag_zeval.documents.chunks import Chunk, ChunkIndex
from rag_zeval.judge.prompt import Prompt
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.replies.values import a_list, a_text, yes_or_no
from rag_zeval.scorers.asking import Judge

NO_QUESTION = "the model found nothing to ask"
NOT_VERBATIM = "its chunk does not contain the snippet word for word"
ANSWERED = "the documents do answer it"
LOOKED_AT = 5  # chunks in which an answer to an unanswerable question is looked for
AGAIN = 0.7  # the temperature of all but the first time that one chunk is asked about; that of the first is 0


@dataclass(frozen=True)
class QuestionPrompt(Prompt):
    """A prompt of `documents/prompts`."""

    folder: ClassVar[Path] = Path(__file__).parent / "prompts"


EASY = QuestionPrompt("question_easy")
MULTI_HOP = QuestionPrompt("question_multi_hop")
UNANSWERABLE = QuestionPrompt("question_unanswerable")
IS_ANSWERED = QuestionPrompt("question_answered")


class Dropped(Exception):
    """A question that does not count; the message is the reason, the same for all that are dropped for it."""


@dataclass(frozen=True)
class Attempt:
    """A request for one question about these chunks; `asked` are those there are, `trial` numbers such requests.

    id: the kind and a number, the same for the same chunks and seed.
    """

    id: str
    chunks: tuple[Chunk, ...]
    asked: tuple[str, ...] = ()
    trial: int = 0


@dataclass(frozen=True)
class Written:
    """A question, its true answer (None: there is none), and the snippet of each chunk that the answer rests on."""

    question: str
    truth: str | None = None
    snippets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """write: asks for a question of this kind, and checks it. Raises Dropped, and Failed when no reply can be read.

    prompts: those it asks with; chunks: how many a question is about.
    """

    write: Callable[[Judge, Attempt, ChunkIndex], Awaitable[Written]]
    prompts: tuple[QuestionPrompt, ...]
    chunks: int = 1

    @property
    def prompt_hash(self) -> str:
        return "+".join(prompt.prompt_hash for prompt in self.prompts)


async def _easy(judge: Judge, attempt: Attempt, index: ChunkIndex) -> Written:
    (chunk,) = attempt.chunks
    written = await _ask(judge, EASY, attempt, passage=chunk.text, asked=attempt.asked)
    return _verbatim(written, attempt)


async def _multi_hop(judge: Judge, attempt: Attempt, index: ChunkIndex) -> Written:
    written = await _ask(judge, MULTI_HOP, attempt, passages=[chunk.text for chunk in attempt.chunks])
    return _verbatim(written, attempt)


async def _unanswerable(judge: Judge, attempt: Attempt, index: ChunkIndex) -> Written:
    (chunk,) = attempt.chunks
    written = await _ask(judge, UNANSWERABLE, attempt, passage=chunk.text, asked=attempt.asked)
    near = [chunk, *index.nearest(written.question, but=chunk)][:LOOKED_AT]
    passages = [one.text for one in near]
    if await judge.ask(IS_ANSWERED, _read_answered, question=written.question, passages=passages):
        raise Dropped(ANSWERED)
    return written


async def _ask(judge: Judge, prompt: QuestionPrompt, attempt: Attempt, **inputs: Any) -> Written:
    temperature = AGAIN if attempt.trial else 0.0
    read = partial(_read, prompt)
    written = await judge.ask(prompt, read, temperature=temperature, trial=attempt.trial, **inputs)
    if written is None:
        raise Dropped(NO_QUESTION)
    return written


def _read(prompt: QuestionPrompt, value: Mapping[str, Any]) -> Written | None:
    if value["question"] is None:
        return None
    question = a_text(value["question"])
    if prompt is UNANSWERABLE:
        return Written(question)
    snippets = a_list(value["snippets"], 2) if prompt is MULTI_HOP else [value["snippet"]]
    return Written(question, a_text(value["answer"]), tuple(map(a_text, snippets)))


def _read_answered(value: Mapping[str, Any]) -> bool:
    return yes_or_no(value["answered"])


def _verbatim(written: Written, attempt: Attempt) -> Written:
    for snippet, chunk in zip(written.snippets, attempt.chunks, strict=True):
        if find_quotes(chunk.text, [snippet]).verbatim[snippet] != 1.0:
            raise Dropped(NOT_VERBATIM)
    return written


KINDS = {
    "easy": Kind(_easy, (EASY,)),
    "multi-hop": Kind(_multi_hop, (MULTI_HOP,), chunks=2),
    "unanswerable": Kind(_unanswerable, (UNANSWERABLE, IS_ANSWERED)),
}
