"""What supervised fine-tuning teaches about the answers that reinforcement learning ranks, without a label of people.

The prompt `ranking-only`: their letters, largest α first (the SFT ranker). Any other: the word rule's trajectory, a
cold start for a base that cannot write one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.judge.parser import as_reply
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.scorers.word_rule import WordMajority, judge_by_words
from rag_zeval.stages.answer_quality import REASONS, Flags, blocking_reason
from train.curriculum import Question, Row, Stage, candidate_sets, count_shown, listed, shuffled


@dataclass(frozen=True)
class Candidates:
    """Answers to one question: the α of candidates A, B, ... as shown."""

    question: Question
    alphas: tuple[float, ...]

    @property
    def answers(self) -> list[str]:
        return [self.question.answers[alpha] for alpha in self.alphas]


def draw_candidates(
    questions: Sequence[Question],
    stages: Sequence[Stage],
    seed: int,
    flags: Mapping[str, Flags],
    most: int | None = None,
) -> tuple[list[Candidates], list[Row]]:
    """`(sets, counts)`: for each stage its number of sets of K candidates, question after question.

    Of a question come all the sets that it has, or `most` of them.

    A question is used for one K only (paper, Table 7: 5,500 questions give 3,877 pairs, 3,874 triplets, 3,883
    quadruplets). `flags` of each question by its id. The counts of a stage have the questions that gave no set when
    their turn came, by reason; they are there for the next. Raises InputError, with the figures, when too few remain.
    """
    drawn: list[Candidates] = []
    counts: list[Row] = []
    left = shuffled(questions, seed, "sft")
    for stage in stages:
        taken: list[Candidates] = []
        unused = []
        left_out: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        for question in left:
            if stage.rows is not None and len(taken) >= stage.rows:
                unused.append(question)
            elif reason := blocking_reason(flags[question.id], question.answers, stage.k):
                left_out[reason] += 1
                unused.append(question)
            else:
                sets = islice(candidate_sets(question, stage.k, seed, flags[question.id]), most)
                taken += [Candidates(question, tuple(alphas)) for alphas in sets]
        if len(taken) < (stage.rows or 1):
            raise InputError(
                f"rows: K={stage.k} needs {stage.rows or 'some'}, but the {len(left)} questions left gave "
                f"{len(taken)}; left out: {listed(left_out)}; synthesize more questions or ask for fewer rows"
            )
        drawn += taken[: stage.rows]
        counts.append({"k": stage.k, "sets": len(taken[: stage.rows]), "left_out": dict(left_out)})
        left = unused
    return drawn, counts


def ranking_reply(candidates: Candidates) -> str:
    """`["C", "A", "B"]`: the letters by falling α."""
    alphas = dict(zip(LETTERS, candidates.alphas, strict=False))
    return json.dumps(sorted(alphas, key=lambda letter: -alphas[letter]))


def rule_reply(candidates: Candidates, variant: str) -> str | None:
    """The word rule's trajectory of the answers; None where an answer has no sentence to claim.

    Half of a claim's new words are enough: wanting all supports so few claims that most answers tie.
    """
    question = candidates.question
    trajectory = judge_by_words(question.question, question.passage, candidates.answers, WordMajority.least)
    return as_reply(trajectory, variant) if all(candidate.atomic_claims for candidate in trajectory) else None


def build_rows(
    drawn: Sequence[Candidates],
    variant: str,
    tokens: Callable[[list[dict[str, str]]], int],
    max_tokens: int,
) -> tuple[list[Row], dict[str, Any]]:
    """`(rows of verl's SFT data set, counts)`; rows of over `max_tokens` in all are left out and counted.

    variant: the prompt, which decides what is taught. Counts: `no_claims`, sets with an answer that has none; `shown`:
    for each K, which alphas stand in its rows, and at which letter.
    """
    rows: list[Row] = []
    left_out = {"too_long": 0, "no_claims": 0}
    for candidates in drawn:
        question, alphas = candidates.question, list(candidates.alphas)
        prompt = judge_messages(variant, question.question, question.passage, candidates.answers)
        reply = ranking_reply(candidates) if variant == RANKING.name else rule_reply(candidates, variant)
        if reply is None:
            left_out["no_claims"] += 1
            continue
        messages = [*prompt, {"role": "assistant", "content": reply}]
        if tokens(messages) > max_tokens:
            left_out["too_long"] += 1
            continue
        rows.append({"messages": messages, "id": question.id, "k": len(alphas), "alphas": alphas})
    by_k = {k: [row["alphas"] for row in rows if row["k"] == k] for k in sorted({row["k"] for row in rows})}
    return rows, {
        "drawn": len(drawn),
        **left_out,
        "train_rows": len(rows),
        "shown": {f"K={k}": count_shown(alphas) for k, alphas in by_k.items()},
    }
