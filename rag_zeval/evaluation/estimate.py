"""What a run would ask, before it asks anything: its scorers on some of its cases, by a judge that goes by the letter.

How often a scorer asks depends little on who answers; how long a reply is, much: take its tokens for an order of size.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_zeval.evaluation.metrics import RAG_ZEVAL, open_metrics
from rag_zeval.evaluation.run import Plan
from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.embeddings import Embedding
from rag_zeval.models.language_model import Reply, Request
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scorer
from rag_zeval.scripted_judge import word_vector

LOOKED_AT = 50  # cases, or examples of a benchmark


@dataclass(frozen=True)
class Estimate:
    """Of one metric: judgements (cases × trials), calls, tokens of prompts and replies. Counts of words and marks."""

    metric: str
    judgements: int
    calls: float
    prompt_tokens: float
    completion_tokens: float


class WordEmbedder:
    """Vectors of counted words; `calls` counts the texts that came."""

    name = identity = "words"
    at_once = 1

    def __init__(self) -> None:
        self.calls = 0

    async def embed(self, text: str) -> Embedding:
        self.calls += 1
        return Embedding(tuple(word_vector(text)), "ok", count_tokens(text), calls=1)

    def fits(self, text: str) -> bool:
        return True


@dataclass(frozen=True)
class Asked:
    """Calls, and tokens of prompts and replies in words and marks."""

    calls: float
    prompt_tokens: float
    completion_tokens: float


def drawn_to_look_at(n: int) -> list[int]:
    """At most LOOKED_AT of n places, in order; always the same."""
    return sorted(random.Random(0).sample(range(n), min(LOOKED_AT, n)))


def asked(scorer: Scorer, looked_at: Sequence[Example], n: float) -> Asked:
    """What a scorer asks about n examples, as many times as about those looked at. Its judge goes by the letter."""
    scored = list(scorer.score(looked_at))
    scale = n / max(1, len(looked_at))
    tokens = [one.paid_tokens or (0, 0) for one in scored]
    return Asked(
        scale * sum(one.calls for one in scored),
        scale * sum(prompt for prompt, _ in tokens),
        scale * sum(completion for _, completion in tokens),
    )


def reply_by_the_letter(request: Request) -> Reply:
    """The literal judge's reply, with its tokens counted."""
    text = literal_reply({"messages": request.messages})
    assert text is not None
    prompt = sum(count_tokens(message["content"]) for message in request.messages)
    return Reply(text, "ok", prompt, count_tokens(text), calls=1)


def estimate(plan: Plan, cache: ReplyCache) -> list[Estimate]:
    """Calls and tokens of each metric that asks a judge, in order; what an earlier one has asked is not asked again.

    cache: an empty one. At most LOOKED_AT cases are looked at, and the counts scaled.
    """
    asking = [name for name in plan.scorers if name == RAG_ZEVAL or (name in MEASURES and MEASURES[name].prompts)]
    looked_at = drawn_to_look_at(len(plan.cases.cases))
    letter = ScriptedBackend(reply_by_the_letter)
    judges = replace(plan.judges, trials=1)
    estimates = []
    for metric in open_metrics(asking, plan.sources, judges, cache, letter):
        examples = [plan.cases.example(at, metric.against) for at in looked_at]
        judgements = len(plan.cases.cases) * plan.judges.trials
        of_metric = asked(metric.scorer, examples, judgements)
        estimates.append(Estimate(metric.name, judgements, **vars(of_metric)))
    return estimates
