"""What a run would ask, before it asks anything: its scorers on some of its cases, by a judge that goes by the letter.

How often a scorer asks depends little on who answers; how long a reply is, much: take its tokens for an order of size.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from rag_zeval.evaluation.metrics import RAG_ZEVAL, open_metrics
from rag_zeval.evaluation.run import Plan
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.language_model import Reply, Request
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.scorers.registry import MEASURES

LOOKED_AT = 50  # cases


@dataclass(frozen=True)
class Estimate:
    """Of one metric: judgements (cases × trials), calls, tokens of prompts and replies. Counts of words and marks."""

    metric: str
    judgements: int
    calls: float
    prompt_tokens: float
    completion_tokens: float


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
    looked_at = sorted(random.Random(0).sample(range(len(plan.cases.cases)), min(LOOKED_AT, len(plan.cases.cases))))
    letter = ScriptedBackend(reply_by_the_letter)
    judges = replace(plan.judges, trials=1)
    estimates = []
    for metric in open_metrics(asking, plan.sources, judges, cache, letter):
        examples = [plan.cases.example(at, metric.against) for at in looked_at]
        scored = list(metric.scorer.score(examples))
        scale = len(plan.cases.cases) * plan.judges.trials / max(1, len(looked_at))
        tokens = [one.paid_tokens or (0, 0) for one in scored]
        estimates.append(
            Estimate(
                metric.name,
                len(plan.cases.cases) * plan.judges.trials,
                scale * sum(one.calls for one in scored),
                scale * sum(prompt for prompt, _ in tokens),
                scale * sum(completion for _, completion in tokens),
            )
        )
    return estimates
