"""What a run would ask, before it asks anything: its scorers run on some examples, with a rule-based mock judge.

How often a scorer asks depends little on who answers. How long a reply is depends much on it: the tokens, which are
words and punctuation marks, are a rough estimate.
"""

import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_zeval.budget import Price
from rag_zeval.files import ANSWER_SENTENCES
from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.literal_judge import count_tokens, literal_reply, word_vector
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedding, packed
from rag_zeval.models.language_model import Messages, Reply, Request
from rag_zeval.models.window import NO_CARD, Window
from rag_zeval.scorers.registry import Named
from rag_zeval.scorers.score import Scorer
from rag_zeval.scoring.in_windows import Parts, plan_parts
from rag_zeval.scoring.opening import Asking, Models, open_scorer, shares_questions

LOOKED_AT = 50  # examples


@dataclass(frozen=True)
class PlannedCalls:
    """The numbers in a line of a dry run: calls, and tokens of prompts and replies in words and punctuation marks.

    parts: how the examples that are too long for the judge are judged.
    """

    calls: float
    prompt_tokens: float
    completion_tokens: float
    parts: Parts | None = None

    @property
    def cells(self) -> list[str]:
        """The first three numbers as a table shows them."""
        return [f"{number:,.0f}" for number in (self.calls, self.prompt_tokens, self.completion_tokens)]

    def dollars(self, price: Price | None, unknown: str) -> str:
        """What that costs, as a table shows it; `unknown` without a price."""
        return unknown if price is None else f"{price.of(self.prompt_tokens, self.completion_tokens):.2f}"


class WordEmbedder:
    """Vectors of counted words; `calls` counts the texts that came."""

    name = identity = "words"
    at_once = 1

    def __init__(self) -> None:
        self.calls = 0

    async def embed(self, text: str) -> Embedding:
        self.calls += 1
        return Embedding(packed(word_vector(text)), "ok", count_tokens(text), calls=1)

    def fits(self, text: str) -> bool:
        return True


class MockJudge:
    """The mock judge in this process, with the card and the window of the real one; `calls` counts the requests."""

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
    """The mock judge's reply, with its tokens counted."""
    text = literal_reply({"messages": request.messages})
    assert text is not None
    prompt = sum(count_tokens(message["content"]) for message in request.messages)
    return Reply(text, "ok", prompt, count_tokens(text), calls=1)


def drawn_to_look_at(n: int) -> list[int]:
    """At most LOOKED_AT of n places, in order; always the same."""
    return sorted(random.Random(0).sample(range(n), min(LOOKED_AT, n)))


def planned_calls(
    scorers: Iterable[tuple[Named, Sequence[Example]]],
    asking: Asking,
    n: float,
    card: Mapping[str, Any] = NO_CARD,
    window: Window | None = None,
) -> Iterator[PlannedCalls]:
    """What each scorer would ask about n examples, in proportion to those given with its name.

    What an earlier one has asked is not asked again. card, window: of the judge; what is too long for it is judged in
    parts.
    """
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        mock, embedder = MockJudge(card, window), CachedEmbedder(WordEmbedder(), cache)
        for name, looked_at in scorers:
            judge = CachedBackend(mock, cache) if shares_questions(name) else mock
            scorer = open_scorer(name, Models(judge, embedder), asking)
            parts = plan_parts(scorer, looked_at, judge)
            yield replace(asked(parts.asked(scorer), looked_at, n), parts=parts)


def asked(scorer: Scorer, looked_at: Sequence[Example], n: float) -> PlannedCalls:
    """What a scorer that asks the mock judge asks about n examples, in proportion to those looked at."""
    scored = list(scorer.score(looked_at))
    scale = n / max(1, len(looked_at))
    tokens = [one.paid_tokens or (0, 0) for one in scored]
    return PlannedCalls(
        scale * sum(one.calls for one in scored),
        scale * sum(prompt for prompt, _ in tokens),
        scale * sum(completion for _, completion in tokens),
    )
