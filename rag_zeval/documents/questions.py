"""Writes a test set with a model: a wanted number of questions of each kind, without duplicates.

A question is about one or more chunks, and is checked before it counts. An interrupted run can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rag_zeval.cases.cells import is_nothing
from rag_zeval.documents.chunks import Chunk, ChunkIndex
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, first_difference, locate
from rag_zeval.judge.prompt import Prompt
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.judge.words import words
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.embeddings import Embedder, Vector
from rag_zeval.models.language_model import Backend, Sampling
from rag_zeval.models.precision import difference
from rag_zeval.replies.reading import READER
from rag_zeval.replies.values import a_list, a_text, yes_or_no
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.asking import Judge, similarity_of
from rag_zeval.scorers.score import Failed

NO_QUESTION = "the model found nothing to ask"
NO_ANSWER = "its answer is a word such as None, which every table reads as an empty cell"
NOT_VERBATIM = "its chunk does not contain the snippet word for word"
ANSWERED = "the documents do answer it"
DUPLICATE = "says the same as another question"
LOOKED_AT = 5  # chunks that are searched for an answer to an unanswerable question
AGAIN = 0.7  # the temperature when a chunk is asked about again; the first time it is 0
ALIKE = 0.9  # the cosine from which two questions are duplicates
PASSES = 10  # most times that each chunk is asked about, for each kind, unless more questions about a chunk are wanted
MOST_ATTEMPTS = 10  # for each question of a kind, but at least FEWEST_ATTEMPTS: a model may write none that counts
FEWEST_ATTEMPTS = 100
AskedAbout = dict[frozenset[Chunk], list[str]]  # the questions so far about the chunks tried

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class QuestionPrompt(Prompt):
    """A prompt of `documents/prompts`."""

    folder: ClassVar[Path] = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Kind:
    """A kind of question: the prompt that asks for one, and the number of chunks that it is about.

    checked_by: for a kind without answers, the prompt that asks whether chunks near the question answer it after all.
    """

    prompt: QuestionPrompt
    chunks: int = 1
    checked_by: QuestionPrompt | None = None

    @property
    def prompt_hash(self) -> str:
        return "+".join(prompt.prompt_hash for prompt in (self.prompt, self.checked_by) if prompt)


KINDS = {
    "easy": Kind(QuestionPrompt("question_easy")),
    "multi-hop": Kind(QuestionPrompt("question_multi_hop"), chunks=2),
    "unanswerable": Kind(QuestionPrompt("question_unanswerable"), checked_by=QuestionPrompt("question_answered")),
}


class Dropped(Exception):
    """Raised for a question that does not count. The message is the reason, always in the same words."""


@dataclass(frozen=True)
class Attempt:
    """A request for one question about these chunks.

    id: the kind and a number. It is the same for the same chunks and seed.
    asked: the questions that exist about these chunks.
    trial: the number of the pass over the chunks, from 0.
    """

    id: str
    chunks: tuple[Chunk, ...]
    asked: tuple[str, ...] = ()
    trial: int = 0


@dataclass(frozen=True)
class Written:
    """A question, its ground truth (None if it has none), and for each chunk the snippet that the answer rests on."""

    question: str
    truth: str | None = None
    snippets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempted:
    """The outcome of an attempt: a row, or the reason why there is none. failed: whether no reply could be read."""

    row: Row | None = None
    reason: str = ""
    failed: bool = False


async def _written(judge: Judge, kind: Kind, attempt: Attempt, index: ChunkIndex) -> Written:
    """Ask for a question of this kind and check it.

    Raises Dropped if there is none or it fails a check. Raises Failed if no reply can be read.
    """
    texts = [chunk.text for chunk in attempt.chunks]
    inputs: dict[str, Any] = {"passages": texts} if kind.chunks > 1 else {"passage": texts[0], "asked": attempt.asked}
    temperature = AGAIN if attempt.trial else 0.0
    read = partial(_read, kind)
    written = await judge.ask(kind.prompt, read, temperature=temperature, trial=attempt.trial, **inputs)
    if written is None:
        raise Dropped(NO_QUESTION)
    if kind.checked_by is None and is_nothing(written.truth):  # `collect` and `evaluate` would find no ground truth
        raise Dropped(NO_ANSWER)
    for snippet, text in zip(written.snippets, texts, strict=False):
        if find_quotes(text, [snippet]).verbatim[snippet] != 1.0:
            raise Dropped(NOT_VERBATIM)
    if kind.checked_by is not None:
        near = [texts[0], *(chunk.text for chunk in index.nearest(written.question, but=attempt.chunks[0]))]
        passages = near[:LOOKED_AT]
        if await judge.ask(kind.checked_by, _read_answered, question=written.question, passages=passages):
            raise Dropped(ANSWERED)
    return written


def _read(kind: Kind, value: Mapping[str, Any]) -> Written | None:
    if is_nothing(value["question"]):  # some models write "null", a text
        return None
    question = a_text(value["question"])
    if kind.checked_by is not None:
        return Written(question)
    snippets = a_list(value["snippets"], kind.chunks, "snippet") if kind.chunks > 1 else [value["snippet"]]
    return Written(question, a_text(value["answer"]), tuple(map(a_text, snippets)))


def _read_answered(value: Mapping[str, Any]) -> bool:
    return yes_or_no(value["answered"])


def quotas(n: int, kinds: Sequence[str]) -> dict[str, int]:
    """Return how many of n questions each kind gets. If equal parts are impossible, the first kinds get one more."""
    return {kind: n // len(kinds) + (place < n % len(kinds)) for place, kind in enumerate(kinds)}


class QuestionWriter:
    """Writes questions about chunks with a model. `seed` determines the order of the chunks and the model's samples.

    embedder: two questions are duplicates if the cosine of their vectors is at least ALIKE. Without an embedder, they
    are duplicates if they have the same words, regardless of case and punctuation.
    """

    def __init__(self, chunks: Sequence[Chunk], model: Backend, embedder: Embedder | None = None, seed: int = 0):
        self._chunks, self._index = chunks, ChunkIndex(chunks)
        self._model, self._embedder, self._seed = model, embedder, seed
        texts = json.dumps([[chunk.id, chunk.text] for chunk in chunks])
        self._input_sha256 = hashlib.sha256(texts.encode()).hexdigest()[:16]

    def write(
        self, wanted: Mapping[str, int], rows: RowWriter, per_chunk: Mapping[str, int] | None = None
    ) -> Iterator[Attempted]:
        """Write questions until the file has the `wanted` number of each kind, if possible. Yield the outcomes.

        per_chunk: the most questions of each kind about one chunk. A question about two chunks counts for the first.

        Kinds are written one after the other. Each chunk is asked about once before any is asked about again. A kind
        ends at its number, after its passes (PASSES, or `per_chunk` if that is more), after a pass without any
        question, or after MOST_ATTEMPTS for each question. No more is asked than is lacking, and rows are written in
        the order of attempts. So the rows depend neither on the order of replies nor on interruptions. A rerun asks
        dropped questions again (a cache then has the reply).

        Raises InputError if a row in the file is of another kind, or of other chunks, prompts, model or seed. Also
        raises it if a kind needs more chunks than there are.
        """
        self._check(wanted, rows)
        return self._write(wanted, rows, per_chunk or {})

    def _write(self, wanted: Mapping[str, int], rows: RowWriter, per_chunk: Mapping[str, int]) -> Iterator[Attempted]:
        there = list(rows.done.values())
        known = _Known(self._embedder, [row["question"] for row in there])
        for kind, number in wanted.items():
            lacking = number - sum(row["slice_tag"] == kind for row in there)
            asked: AskedAbout = {}
            order = random.Random(f"{self._seed} {kind}").sample(self._chunks, len(self._chunks))
            most = per_chunk.get(kind, PASSES)
            passes = max(PASSES, most)
            numbered = [*enumerate(order * passes)][: max(FEWEST_ATTEMPTS, MOST_ATTEMPTS * number)]
            ids = {f"{kind}-{number}": chunk for number, chunk in numbered}
            about = Counter(ids[id_] for id_ in ids.keys() & rows.done.keys())
            for trial in range(passes):
                before = sum(map(len, asked.values()))
                turns = numbered[trial * len(order) : (trial + 1) * len(order)]
                todo = self._attempts(kind, trial, turns, asked, rows)
                todo = (attempt for attempt in todo if about[attempt.chunks[0]] < most)
                while batch := list(islice(todo, max(0, lacking))):
                    for attempt, outcome in self._outcomes(kind, batch, known):
                        if outcome.row is not None:
                            rows.append(outcome.row)
                            asked[frozenset(attempt.chunks)].append(outcome.row["question"])
                            about[attempt.chunks[0]] += 1
                            lacking -= 1
                        yield outcome
                if lacking <= 0 or sum(map(len, asked.values())) == before:
                    break

    def _check(self, wanted: Mapping[str, int], rows: RowWriter) -> None:
        for kind, number in wanted.items():
            if number and KINDS[kind].chunks > len(self._chunks):
                raise InputError(
                    f"kind '{kind}': needs {KINDS[kind].chunks} chunks, the documents have 1; leave it out of --kinds"
                )
        for number, row in enumerate(rows.done.values(), 1):
            with locate(f"{rows.path}:{number}"):
                check_fields(row, {"question": str, "slice_tag": str})
                if row["slice_tag"] not in wanted:
                    raise InputError(f"row {row['id']!r} is of a kind that is not in --kinds; choose another --out")
                now = self._made_by(row["slice_tag"])
                del now["model"]  # only a name; `identity` says which model it is
                if differing := first_difference({name: row.get(name) for name in now}, now):
                    where = difference(row.get("identity"), now["identity"]) if differing == "identity" else ""
                    other = f"with a different {differing}{where}"
                    other = "from other documents" if differing == "input_sha256" else other
                    raise InputError(f"row {row['id']!r} was made {other}; choose another --out")

    def _made_by(self, kind: str) -> Row:
        """Return the fields on which a row of this kind depends."""
        return {
            "model": self._model.name,
            "identity": self._model.identity,
            "prompt_hash": KINDS[kind].prompt_hash,
            "reader": READER,
            "seed": self._seed,
            "input_sha256": self._input_sha256,
        }

    def _attempts(
        self, kind: str, trial: int, turns: Sequence[tuple[int, Chunk]], asked: AskedAbout, rows: RowWriter
    ) -> Iterator[Attempt]:
        """Yield the attempts of one pass for chunks without a row. Add the questions of the other chunks to `asked`."""
        for number, chunk in turns:
            chunks: tuple[Chunk, ...] = (chunk,)
            if KINDS[kind].chunks == 2:  # paired with the nearest chunk, in the next pass with the second
                chunks += tuple(self._index.nearest(chunk.text, but=chunk)[trial : trial + 1])
                if len(chunks) == 1 or frozenset(chunks) in asked:
                    continue
            about = asked.setdefault(frozenset(chunks), [])
            id_ = f"{kind}-{number}"
            if id_ in rows.done:
                about.append(rows.done[id_]["question"])
            else:
                yield Attempt(id_, chunks, tuple(about), trial)

    def _outcomes(self, kind: str, batch: Sequence[Attempt], known: _Known) -> Iterator[tuple[Attempt, Attempted]]:
        async def ask(attempt: Attempt) -> tuple[Written, Vector | None] | Dropped | Failed:
            judge = Judge(self._model, self._embedder, Sampling(seed=self._seed))
            try:
                written = await _written(judge, KINDS[kind], attempt, self._index)
                return written, await judge.embed(written.question) if self._embedder else None
            except (Dropped, Failed) as reason:
                return reason

        for attempt, found in zip(batch, _in_order(ask, batch, self._model.at_once), strict=True):
            try:
                if isinstance(found, Exception):
                    raise found
                written, vector = found
                known.add(written.question, vector)
                yield attempt, Attempted(self._row(kind, attempt, written))
            except (Dropped, Failed) as reason:
                yield attempt, Attempted(reason=str(reason), failed=isinstance(reason, Failed))

    def _row(self, kind: str, attempt: Attempt, written: Written) -> Row:
        return {
            "id": attempt.id,
            "question": written.question,
            "truth": written.truth,
            "snippets": written.snippets,
            "gold_chunk_ids": [chunk.id for chunk in attempt.chunks] if written.snippets else [],
            "slice_tag": kind,
            "origin": "generated",
            "documents": list(dict.fromkeys(chunk.document for chunk in attempt.chunks)),
            **self._made_by(kind),
        }


class _Known:
    """The questions in the test set, for finding duplicates.

    Raises InputError if one gets no vector, because its duplicates could not be found.
    """

    def __init__(self, embedder: Embedder | None, questions: Sequence[str]):
        self._vectors: list[Vector] = []
        self._texts: set[tuple[str, ...]] = set(map(_normalised, questions))
        if embedder is not None:
            for place, embedding in as_finished(embedder.embed, questions, embedder.at_once):
                if embedding.vector is None:
                    raise InputError(f"no vector of the question {questions[place]!r}: {embedding.status}")
                self._vectors.append(embedding.vector)

    def add(self, question: str, vector: Vector | None) -> None:
        """Add a question. Raises Dropped if it is a duplicate, and Failed if its vector cannot be compared."""
        if vector is None:
            alike = _normalised(question) in self._texts
            self._texts.add(_normalised(question))
        else:
            similarity_of(vector, vector)  # raises for a zero vector: no later question could be compared with it
            alike = any(similarity_of(vector, other) >= ALIKE for other in self._vectors)
            self._vectors += [] if alike else [vector]
        if alike:
            raise Dropped(DUPLICATE)


def _normalised(question: str) -> tuple[str, ...]:
    return tuple(word for word in words(question.casefold()) if word[0].isalnum())


def _in_order(ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """Yield the results of `as_finished` in the order of the items."""
    early: dict[int, Result] = {}
    turn = 0
    for place, result in as_finished(ask, items, at_once):
        early[place] = result
        while turn in early:
            yield early.pop(turn)
            turn += 1
