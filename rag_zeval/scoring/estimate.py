"""Estimates the calls and tokens of a run before it starts. Its scorers ask the mock judge about some examples.

The number of calls depends little on which judge answers. The length of the replies depends on it a lot, so the tokens
(counted as words and punctuation marks) are a rough estimate.
"""

import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_zeval.budget import Price
from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.literal_judge import count_tokens, literal_reply, word_vector
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedding, packed
from rag_zeval.models.folder import ANSWER_SENTENCES
from rag_zeval.models.language_model import Messages, Reply, Request
from rag_zeval.models.window import NO_CARD, Window
from rag_zeval.scorers.registry import Named
from rag_zeval.scorers.score import Scorer
from rag_zeval.scoring.in_windows import Parts, plan_parts
from rag_zeval.scoring.opening import Asking, Models, open_scorer, shares_questions

LOOKED_AT = 50  # most examples that an estimate uses


@dataclass(frozen=True)
class PlannedCalls:
    """The numbers in a line of a dry run: calls, and tokens (words and punctuation marks) of prompts and of replies.

    parts: how the examples that are too long for the judge are judged.
    """

    calls: float
    prompt_tokens: float
    completion_tokens: float
    parts: Parts | None = None

    @property
    def cells(self) -> list[str]:
        """The first three numbers, formatted for a table."""
        return [f"{number:,.0f}" for number in (self.calls, self.prompt_tokens, self.completion_tokens)]

    def dollars(self, price: Price | None, unknown: str) -> str:
        """Return the cost in dollars, formatted for a table; `unknown` without a price."""
        return unknown if price is None else f"{price.of(self.prompt_tokens, self.completion_tokens):.2f}"


class WordEmbedder:
    """Embeds texts as vectors of word counts. `calls` counts the texts."""

    name = identity = "words"
    at_once = 1

    def __init__(self) -> None:
        self.calls = 0

    async def embed(self, text: str) -> Embedding:
        self.calls += 1
        return Embedding(packed(word_vector(text)), "ok", count_tokens(text), calls=1)


class MockJudge:
    """The mock judge in this process, with the card and window of the real judge. `calls` counts the requests."""

    name = identity = "mock judge"
    at_once, batched = 1, False

    def __init__(self, card: Mapping[str, Any] = NO_CARD, window: Window | None = None) -> None:
        self.calls = 0
        self._window = window
        self.max_context = window.max_context if window else None
        self.card: Mapping[str, Any] = {
            name: value for name, value in card.items() if name == ANSWER_SENTENCES or value in VARIANTS
        }

    def count_tokens(self, messages: Messages) -> int | None:
        return self._window.count_tokens(messages) if self._window else None

    async def complete(self, request: Request) -> Reply:
        self.calls += 1
        return mock_reply(request)


def mock_reply(request: Request) -> Reply:
    """Return the mock judge's reply, with its tokens counted."""
    text = literal_reply({"messages": request.messages})
    assert text is not None
    prompt = sum(count_tokens(message["content"]) for message in request.messages)
    return Reply(text, "ok", prompt, count_tokens(text), calls=1)


def drawn_to_look_at(n: int) -> list[int]:
    """Draw at most LOOKED_AT of n places, in order. The draw is the same each time."""
    return sorted(random.Random(0).sample(range(n), min(LOOKED_AT, n)))


def planned_calls(
    scorers: Iterable[tuple[Named, Sequence[Example]]],
    asking: Asking,
    n: float,
    card: Mapping[str, Any] = NO_CARD,
    window: Window | None = None,
) -> Iterator[PlannedCalls]:
    """Yield what each scorer would ask about n examples, extrapolated from the examples given with its name.

    Questions that an earlier scorer has already asked are cache hits and not counted. card, window: those of the judge.
    Examples that are too long for it are judged in parts.
    """
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        mock, embedder = MockJudge(card, window), CachedEmbedder(WordEmbedder(), cache)
        for name, looked_at in scorers:
            judge = CachedBackend(mock, cache) if shares_questions(name) else mock
            scorer = open_scorer(name, Models(judge, embedder), asking)
            parts = plan_parts(scorer, looked_at, judge)
            yield replace(asked(parts.asked(scorer), looked_at, n), parts=parts)


def asked(scorer: Scorer, looked_at: Sequence[Example], n: float) -> PlannedCalls:
    """Return what a scorer asks the mock judge about n examples, extrapolated from the examples in `looked_at`."""
    scored = list(scorer.score(looked_at))
    scale = n / max(1, len(looked_at))
    tokens = [one.paid_tokens or (0, 0) for one in scored]
    return PlannedCalls(
        scale * sum(one.calls for one in scored),
        scale * sum(prompt for prompt, _ in tokens),
        scale * sum(completion for _, completion in tokens),
    )
