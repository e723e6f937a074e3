"""Count what each scorer asks of a judge: `python -m experiments.timing.call_costs`.

It prints the table of docs/scorer-costs.md, and writes rag_zeval/scorers/costs.json, which `rag-zeval scorers` shows.

The input is 60 questions of the nano world. Each has a ground truth, five retrieved chunks and two answers; an answer
has four sentences and cites two of the chunks. Every scorer judges them alone, with an empty cache. The judge is the
rule-based mock judge (`literal_judge`): how good a judge is changes neither the number of calls nor their length. A
prompt that a scorer sends for both answers in the same words is sent and counted once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_zeval.evaluation.estimate import WordEmbedder, reply_by_the_letter
from rag_zeval.files import write_json
from rag_zeval.judge.example import Example
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import COSTS, MEASURES
from rag_zeval.scorers.score import Scorer
from rag_zeval.stages import world
from rag_zeval.streams import exit_status, run_command

PAIRS, SEED, CHUNKS = 60, 20261121, 5
HEADS = ("scorer", "judge calls", "texts embedded", "prompt tokens", "reply tokens", "tokens ÷ RAG-Zeval's")


def examples() -> list[Example]:
    """The questions, each with a better and a worse answer, a ground truth and CHUNKS chunks."""
    rows = []
    for ranked in world.ranked_examples("test", PAIRS, 2, SEED):
        question = ranked.question
        sentences = [*question.sentences.values()]
        chunks = tuple(" ".join(sentences[at::CHUNKS]) for at in range(CHUNKS))
        answers = tuple(f"{answer.removesuffix('.')} [1][2]." for answer in ranked.answers)
        truth = world.answer(question, question.facts)
        rows.append(Example(ranked.id, question.question, question.passage, answers, truth, chunks))
    return rows


def measure(name: str) -> tuple[float, float, float, float]:
    """What a scorer, a Measure or RAG-Zeval, costs: judge calls, texts embedded, prompt tokens and reply tokens.

    Means over the pairs of answers. Raises ValueError if an answer gets no score.
    """
    backend, embedder = ScriptedBackend(reply_by_the_letter), WordEmbedder()
    prompt = completion = 0
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        judge = CachedBackend(backend, cache)
        scorer: Scorer = (
            RagZeval(judge, "paper", Sampling())
            if name == RagZeval.name
            else AskingScorer(MEASURES[name], judge, Sampling(), CachedEmbedder(embedder, cache))
        )
        for scored in scorer.score(examples()):
            if None in scored.values or scored.paid_tokens is None:
                raise ValueError(f"{name}: no score for {scored.id}: {[score.status for score in scored.scores]}")
            prompt, completion = prompt + scored.paid_tokens[0], completion + scored.paid_tokens[1]
    return backend.calls / PAIRS, embedder.calls / PAIRS, prompt / PAIRS, completion / PAIRS


def all_costs() -> dict[str, tuple[float, float, float, float]]:
    """What `measure` says of every scorer that asks a judge or embeds texts, by its name."""
    return {name: measure(name) for name in (RagZeval.name, *MEASURES)}


def shipped(costs: Mapping[str, tuple[float, float, float, float]]) -> dict[str, list[int]]:
    """What `rag-zeval scorers` shows of them: calls and tokens, rounded."""
    return {name: [round(calls), round(prompt + reply)] for name, (calls, _, prompt, reply) in costs.items()}


def table(costs: Mapping[str, tuple[float, float, float, float]]) -> str:
    """The costs, the cheapest first, as a Markdown table."""
    tokens = {name: prompt + reply for name, (_, _, prompt, reply) in costs.items()}
    lines = [f"| {' | '.join(HEADS)} |", "|---|" + "---:|" * (len(HEADS) - 1)]
    for name in sorted(costs, key=lambda name: (tokens[name], name)):
        calls, embedded, prompt, reply = costs[name]
        numbers = f"{calls:.2f} | {embedded:.2f} | {prompt:,.0f} | {reply:,.0f}"
        lines.append(f"| `{name}` | {numbers} | {tokens[name] / tokens[RagZeval.name]:.2f} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    return run_command(call_costs, argv, "experiments.timing.call_costs", __doc__)


def call_costs() -> None:
    costs = all_costs()
    write_json(COSTS, shipped(costs))
    sys.stdout.write(table(costs))


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
