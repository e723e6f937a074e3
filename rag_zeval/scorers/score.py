"""The interface of scorers: each takes Examples and yields a Scored for each, with a Score for every answer.

`Scorer.score` leaves out what cannot be judged. An answer that lacks something that the scorer needs has no score, says
why, and costs nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rag_zeval.budget import NOT_ASKED
from rag_zeval.errors import InputError
from rag_zeval.files import COUNT, NONE, NUMBER_OR_NONE, FieldTypes, Maybe, check_fields
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import lacking
from rag_zeval.judge.schema import TRAJECTORY
from rag_zeval.models.embeddings import Embedding
from rag_zeval.models.language_model import Reply, known_total
from rag_zeval.text import one_line

NO_MODEL = "no model"
# parts with an entry for each answer, and the entry of an answer that was not judged
OF_NONE: dict[str, Any] = {"trajectory": None, "answers": {}, "best_piece": None, "windows": []}
SUMMED = ("calls", "cached", "retries", "failures", "bounded", "unasked")  # fields of a Scored
SCORED: FieldTypes = {  # fields of a row in a file
    "id": str,
    "scores": [{"value": NUMBER_OR_NONE, "status": str}],
    "parts": Maybe(
        {
            "trajectory": Maybe(TRAJECTORY),
            "strict": Maybe((bool, int, float, NONE)),
            "pieces": Maybe([dict]),
            "windows": Maybe([[dict]]),
        }
    ),
    **dict.fromkeys((*SUMMED, "untold"), Maybe(COUNT)),
    **dict.fromkeys(("prompt_tokens", "completion_tokens"), Maybe((COUNT, NONE))),
    "paid_tokens": Maybe(([COUNT], NONE)),
    "seconds": Maybe((int, float)),
    "final": Maybe(bool),
}


@dataclass(frozen=True)
class Score:
    """The value of one answer in the scorer's own range, or None with the reason in `status` ("failed: ...")."""

    value: float | None
    status: str = "ok"


@dataclass(frozen=True)
class Scored:
    """One example scored: a Score per answer, what the values were made of, and what it cost.

    Costs belong to the example, since one call may judge all answers together.

    Attributes:
        id: The id of the example.
        scores: One for each answer.
        parts: What the values were computed from, such as claims and verdicts.
        calls: HTTP requests or generations, retries included.
        prompt_tokens: Tokens of the prompts, also for cached replies; None if unknown.
        completion_tokens: The same for the judge's replies.
        final: False if a reply is missing. The next run then retries the row.
        cached: Replies that cost no call.
        retries: Retried requests.
        failures: Missing replies.
        seconds: From request to reply, summed over calls.
        paid_tokens: (prompt, completion) tokens of all calls to the judge, also without a reply; None if unknown.
        bounded: Calls for which `paid_tokens` has an upper bound, because the endpoint reported no token counts.
        unasked: Failures because the budget was spent, so that the request was not sent, or not again.
    """

    id: str
    scores: tuple[Score, ...]
    parts: dict[str, Any] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    final: bool = True
    cached: int = 0
    retries: int = 0
    failures: int = 0
    seconds: float = 0.0
    paid_tokens: tuple[int, int] | None = (0, 0)
    bounded: int = 0
    unasked: int = 0

    @property
    def values(self) -> tuple[float | None, ...]:
        return tuple(score.value for score in self.scores)

    def row(self) -> dict[str, Any]:
        """Return the JSONL row; `from_row` reads it back."""
        paid = None if self.paid_tokens is None else list(self.paid_tokens)
        return {**vars(self), "scores": [{**vars(score)} for score in self.scores], "paid_tokens": paid}

    @staticmethod
    def from_row(row: dict[str, Any]) -> Scored:
        """Read what `row` wrote. Raises InputError naming the first field that it cannot have written."""
        check_fields(row, SCORED)
        paid = row.get("paid_tokens")
        if paid is not None and len(paid) != 2:
            raise InputError("field 'paid_tokens' must hold two numbers, of prompts and of replies")
        known = {name: row[name] for name in Scored.__dataclass_fields__ if name in row}
        scores = tuple(Score(score["value"], score["status"]) for score in row["scores"])
        return Scored(**{**known, "scores": scores, "paid_tokens": tuple(paid) if paid else None})


def costs(replies: Sequence[Reply]) -> dict[str, Any]:
    """Return the fields of a Scored that say what its replies cost, and whether none is missing ("final")."""
    lost = sum(reply.text is None for reply in replies)
    return {
        "calls": sum(reply.calls for reply in replies),
        "prompt_tokens": known_total([one.prompt_tokens for one in replies]),
        "completion_tokens": known_total([one.completion_tokens for one in _of_judge(replies)]),
        "final": lost == 0,
        "cached": sum(reply.cached for reply in replies),
        "retries": sum(reply.retries for reply in replies),
        "failures": lost,
        "seconds": round(sum(reply.seconds for reply in replies), 3),
        "paid_tokens": paid_tokens(replies),
        "bounded": sum(reply.bounded for reply in replies),
        "unasked": sum(reply.status == NOT_ASKED for reply in replies),
    }


def costs_together(found: Sequence[Scored]) -> dict[str, Any]:
    """Return the same fields for an example that was scored in several parts: their sums."""
    paid = [one.paid_tokens for one in found]
    known = [tokens for tokens in paid if tokens is not None]
    return {
        "prompt_tokens": known_total([one.prompt_tokens for one in found]),
        "completion_tokens": known_total([one.completion_tokens for one in found]),
        "final": all(one.final for one in found),
        "seconds": round(sum(one.seconds for one in found), 3),
        "paid_tokens": (sum(prompt for prompt, _ in known), sum(reply for _, reply in known))
        if len(known) == len(paid)
        else None,
        **{name: sum(getattr(one, name) for one in found) for name in SUMMED},
    }


def paid_tokens(replies: Sequence[Reply]) -> tuple[int, int] | None:
    """Return the tokens of prompts and of replies that the judge bills; None if those of one call are unknown.

    For a scorer that calls no judge, these are the tokens that the embedding model bills.
    """
    prompt = completion = 0
    for one in _of_judge(replies) or replies:
        paid = _paid(one)
        if paid is None:
            return None
        prompt, completion = prompt + paid[0], completion + paid[1]
    return prompt, completion


def _of_judge(replies: Sequence[Reply]) -> list[Reply]:
    return [reply for reply in replies if not isinstance(reply, Embedding)]


def _paid(one: Reply) -> tuple[int, int] | None:
    if not one.calls:
        return 0, 0
    if one.paid_tokens is not None:
        return one.paid_tokens
    told = one.prompt_tokens, 0 if isinstance(one, Embedding) else one.completion_tokens
    if one.status.startswith("failed"):
        return told[0] or 0, told[1] or 0
    return None if told[0] is None or told[1] is None else (told[0], told[1])


class Failed(Exception):
    """Raised if there is no score for an answer. The message says why, without "failed: "."""


class Scorer(ABC):
    """A method that gives answers a score. `identity` holds everything, besides the example, that can change a score.

    needs: what an example must have, see `judge.needs`. also: what else the scorer uses, if the example has it.
    asks: the models that it calls, in words, as `rag-zeval scorers` shows them.
    prompt_hash: the hash of the prompts for a judge; None without a judge.
    group: how many requests are computed together, in batches. Examples that follow each other are scored together up
    to that many `requests`. None if each example is scored by itself.
    part_done: is called with the id of an example and the share of it that is judged, from 0 to 1, if the scorer judges
    it in parts. None: nobody wants to know.
    """

    name: str
    identity: str
    needs: tuple[str, ...]
    also: tuple[str, ...] = ()
    asks: str = NO_MODEL
    group: int | None = None
    prompt_hash: str | None = None
    part_done: Callable[[str, float], None] | None = None

    def score(self, examples: Iterable[Example]) -> Iterator[Scored]:
        """Yield one Scored per example, in any order.

        An answer that lacks something has no score; the others of its example are judged without it. Examples are taken
        from the iterable only as fast as they can be judged. Raises InputError for a duplicate id.

            for scored in scorer.score(examples):
                print(scored.id, scored.values)
        """
        seen: set[str] = set()
        without: deque[Scored] = deque()
        cut: dict[str, tuple[str | None, ...]] = {}  # why some answers were left out, by example

        def judgeable() -> Iterator[Example]:
            for example in examples:
                if example.id in seen:
                    raise InputError(f"duplicate id {example.id!r}: give each example its own")
                seen.add(example.id)
                reasons, shown = self.left_out(example), self.shown(example)
                if shown is None:
                    without.append(_with_places(Scored(example.id, ()), reasons))
                    continue
                if any(reasons):
                    cut[example.id] = reasons
                yield shown

        for scored in self.judge(judgeable()):
            while without:
                yield without.popleft()
            yield _with_places(scored, cut.pop(scored.id)) if scored.id in cut else scored
        yield from without

    @property
    def identities(self) -> set[str]:
        """All identities that its rows can have."""
        return {self.identity}

    def identity_of(self, parts: Mapping[str, Any]) -> str:
        """Return the identity of a row with these parts."""
        return self.identity

    def lacking(self, example: Example) -> tuple[str | None, ...]:
        """Return for each answer why it cannot be judged, such as "failed: no ground truth"; None if it can."""
        return lacking(example, self.needs)

    def left_out(self, example: Example) -> tuple[str | None, ...]:
        """Return for each answer why it is not judged: what it lacks, or a reason of the scorer's own; else None."""
        return self.lacking(example)

    def shown(self, example: Example) -> Example | None:
        """Return the example with only the answers that can be judged; None if there are none."""
        reasons = self.left_out(example)
        there = tuple(answer for answer, reason in zip(example.answers, reasons, strict=True) if not reason)
        if not there:
            return None
        return replace(example, answers=there, unanswered=()) if any(reasons) else example

    def requests(self, example: Example) -> int:
        """Return how many requests about an example are made at first."""
        return 1

    @abstractmethod
    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        """Yield one Scored per example, in any order. Every example has what the scorer needs."""


class AnswerScorer(Scorer):
    """Scores each answer by itself, in this process.

        class Short(AnswerScorer):
            name, identity, needs = "short", "short, version 1", ("answer",)

            def value(self, example: Example, answer: str) -> float:
                return float(len(answer) < 400)

        evaluate(frame, scorers=["rag_zeval", Short()], model="openai:gpt-4o-mini")

    Scores of your own go from 0 to 1, the higher the better: reports and comparisons expect that. Change `identity`
    with the code: a result file takes no rows of other code.
    """

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            yield Scored(example.id, tuple(self._score(example, answer) for answer in example.answers))

    def _score(self, example: Example, answer: str) -> Score:
        try:
            value = float(self.value(example, answer))  # NumPy's numbers, too
            if not math.isfinite(value):
                raise Failed(f"the value is {value}")
            return Score(value)
        except Failed as failure:
            return Score(None, f"failed: {failure}")
        except Exception as error:  # out of memory, or what a model's own code raises
            return Score(None, f"failed: {one_line(f'{type(error).__name__}: {error}')}")

    @abstractmethod
    def value(self, example: Example, answer: str) -> float:
        """Return the score of one answer of the example. Raises Failed if there is none."""


def _with_places(scored: Scored, reasons: Sequence[str | None]) -> Scored:
    """Insert an empty place for each answer that the scorer was not shown. reasons: why, or None if it was shown."""

    def places(there: Iterable[Any], missing: Any) -> list[Any]:
        left = iter(there)
        return [missing if reason else next(left) for reason in reasons]

    scores = zip(places(scored.scores, None), reasons, strict=True)
    parts = {
        name: places(value, OF_NONE[name]) if name in OF_NONE and value else value
        for name, value in scored.parts.items()
    }
    return replace(scored, scores=tuple(score or Score(None, str(reason)) for score, reason in scores), parts=parts)
