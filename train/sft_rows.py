"""Supervised lessons, a prompt and the reply to learn, from the same answers that reinforcement learning ranks.

`ranking`: the candidates' letters, largest α first, as the paper's SFT ranker learns them (Table 5). `no-evidence`:
what the base itself says of the candidates, with the evidence left out: it learns that format and no new verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.llm import Backend, Request, Sampling
from rag_zeval.parser import FormatError, parse_strict
from rag_zeval.prompt import Prompt, Variant, judge_messages
from rag_zeval.schema import LETTERS, Trajectory
from train.curriculum import Question, Row, Stage, candidate_sets, shuffled


@dataclass(frozen=True)
class Candidates:
    """Answers to one question: the α of candidates A, B, ... as shown."""

    question: Question
    alphas: tuple[float, ...]

    def messages(self, prompt: Prompt) -> list[dict[str, str]]:
        """The prompt that shows them."""
        answers = [self.question.answers[alpha] for alpha in self.alphas]
        return judge_messages(prompt.name, self.question.question, self.question.passage, answers)


def draw_candidates(
    questions: Sequence[Question], stages: Sequence[Stage], seed: int, filter_identical: bool
) -> list[Candidates]:
    """For each stage its number of sets of K candidates: all that a question has, question by question.

    A question is used for one K only (paper, Table 7: 5,500 questions give 3,877 pairs, 3,874 triplets, 3,883
    quadruplets). Raises InputError, with the figures, when too few remain.
    """
    drawn: list[Candidates] = []
    left = shuffled(questions, seed, "sft")
    for stage in stages:
        taken: list[Candidates] = []
        unused = []
        for question in left:
            wanted = stage.rows is None or len(taken) < stage.rows
            sets = list(candidate_sets(question, stage.k, seed, filter_identical)) if wanted else []
            taken += [Candidates(question, tuple(alphas)) for alphas in sets]
            if not sets:
                unused.append(question)
        if len(taken) < (stage.rows or 1):
            raise InputError(
                f"rows: K={stage.k} needs {stage.rows or 'some'}, but the {len(left)} questions left gave "
                f"{len(taken)}; synthesize more questions or ask for fewer rows"
            )
        drawn += taken[: stage.rows]
        left = unused
    return drawn


def ranking_reply(candidates: Candidates) -> str:
    """`["C", "A", "B"]`: the letters by falling α."""
    alphas = dict(zip(LETTERS, candidates.alphas, strict=False))
    return json.dumps(sorted(alphas, key=lambda letter: -alphas[letter]))


def own_replies(
    base: Backend, drawn: Sequence[Candidates], variant: Variant, without_evidence: Variant
) -> list[str | None]:
    """For each set of candidates the base's own trajectory, greedy, in `variant`, retold in `without_evidence`.

    None where the strict parser cannot read what the base wrote.
    """
    from rich.progress import track

    greedy = Sampling(temperature=0.0, top_p=1.0)
    requests = [Request(tuple(candidates.messages(variant)), greedy) for candidates in drawn]
    replies: list[str | None] = [None] * len(drawn)
    for at, reply in track(base.complete(requests), "the base judges", total=len(requests)):
        try:
            trajectory = parse_strict(reply.text or "", len(drawn[at].alphas), variant.name)
        except FormatError:
            continue
        replies[at] = trajectory_text(trajectory, without_evidence)
    return replies


def trajectory_text(trajectory: Trajectory, variant: Variant) -> str:
    """A trajectory as JSON text with the fields of `variant`, in its order."""

    def echo(answer: str | None) -> dict[str, str | None]:
        return {"answer": answer} if variant.echo_answer else {}

    items = [
        {
            "id": candidate.id,
            **echo(candidate.answer),
            "atomic_claims": [
                {field: getattr(claim, field) for field in variant.claim_fields} for claim in candidate.atomic_claims
            ],
        }
        for candidate in trajectory
    ]
    return json.dumps(items, ensure_ascii=False)


def build_rows(
    drawn: Sequence[Candidates],
    replies: Sequence[str | None],
    prompt: Prompt,
    tokens: Callable[[list[dict[str, str]]], int],
    max_tokens: int,
) -> tuple[list[Row], dict[str, Any]]:
    """`(rows of verl's SFT data set, counts)`; left out and counted: without reply, over `max_tokens` in all."""
    rows: list[Row] = []
    counts = {"drawn": len(drawn), "unreadable": 0, "too_long": 0}
    for candidates, reply in zip(drawn, replies, strict=True):
        if reply is None:
            counts["unreadable"] += 1
            continue
        messages = [*candidates.messages(prompt), {"role": "assistant", "content": reply}]
        if tokens(messages) > max_tokens:
            counts["too_long"] += 1
            continue
        k, alphas = len(candidates.alphas), list(candidates.alphas)
        rows.append({"messages": messages, "id": candidates.question.id, "k": k, "alphas": alphas})
    return rows, {**counts, "train_rows": len(rows)}
