"""The rows of supervised fine-tuning, from the answers that reinforcement learning uses, without human labels.

With the prompt `ranking-only` the reply to learn is the answers' letters, largest α first (the SFT ranker). With any
other prompt it is the word rule's trajectory: a cold start for a base that cannot write one.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.judge.parser import as_reply
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.judge.scoring import strictly_ranked, support_scores
from rag_zeval.scorers.word_rule import STRICTNESS, judge_by_words
from rag_zeval.stages.answer_quality import REASONS, Flags, blocking_reason
from train.curriculum import Question, TokenCounter, candidate_sets, count_shown, listed, shuffled
from train.settings import SFTSettings

UNRANKED = "unranked"


class Lesson(NamedTuple):
    """A question, the α of candidates A, B, ... in the prompt, and the reply to learn."""

    question: Question
    alphas: list[float]
    reply: str


def draw_lessons(
    settings: SFTSettings, questions: Sequence[Question], flags: Mapping[str, Flags]
) -> tuple[list[Lesson], list[Row]]:
    """Return `(lessons, counts)`: for each stage its number of sets of K candidates, question after question.

    A question gives all its sets, or `sets_per_question` of them. The prompt (`variant`) determines the reply to learn.
    If it is a trajectory, sets are skipped that the word rule cannot rank as α does. flags: of each question, by id.

    A question is used for one K only (paper, Table 7: 5,500 questions give 3,877 pairs, 3,874 triplets, 3,883
    quadruplets). The counts of a stage include, by reason, the questions that gave no set. The next stage may use them.
    Raises InputError, with the numbers, if a stage gets too few sets.
    """
    drawn: list[Lesson] = []
    counts: list[Row] = []
    left = shuffled(questions, settings.seed, "sft")
    for stage in settings.rows:
        taken: list[Lesson] = []
        unused = []
        left_out: Counter[str] = Counter(dict.fromkeys((*REASONS, UNRANKED), 0))
        for question in left:
            if stage.rows is not None and len(taken) >= stage.rows:
                unused.append(question)
                continue
            lessons, reason = lessons_of(question, stage.k, settings.seed, flags[question.id], settings.variant)
            taken += lessons[: settings.sets_per_question]
            if reason is not None:
                left_out[reason] += 1
                unused.append(question)
        if len(taken) < (stage.rows or 1):
            raise InputError(
                f"rows: K={stage.k} needs {stage.rows or 'some'}, but the {len(left)} questions left gave "
                f"{len(taken)}; left out: {listed(left_out)}; synthesize more questions or ask for fewer rows"
            )
        shown = taken[: stage.rows]
        known = {"k": stage.k, "questions": len({lesson.question.id for lesson in shown}), "sets": len(shown)}
        drawn += shown
        counts.append({**known, "left_out": dict(left_out)})
        left = unused
    return drawn, counts


def lessons_of(question: Question, k: int, seed: int, flags: Flags, variant: str) -> tuple[list[Lesson], str | None]:
    """Return the lessons of a question's sets of k answers and None, or no lesson and the reason."""
    if reason := blocking_reason(flags, question.answers, k):
        return [], reason
    lessons = []
    for alphas in candidate_sets(question, k, seed, flags):
        reply = ranking_reply(alphas) if variant == RANKING.name else rule_reply(question, alphas, variant)
        if reply is not None:
            lessons.append(Lesson(question, alphas, reply))
    return lessons, None if lessons else UNRANKED


def ranking_reply(alphas: Sequence[float]) -> str:
    """Return the letters of candidates A, B, ... by falling α, as JSON: `["C", "A", "B"]`."""
    by_letter = dict(zip(LETTERS, alphas, strict=False))
    return json.dumps(sorted(by_letter, key=lambda letter: -by_letter[letter]))


def rule_reply(question: Question, alphas: Sequence[float], variant: str) -> str | None:
    """Return the word rule's trajectory that ranks the answers as α does, or None if no share of STRICTNESS gives one.

    α is a weak label here. It selects how strict the rule is with these answers, and drops sets that the rule ranks
    wrongly or not at all. An answer without a sentence has no claim and so no rank.
    """
    answers = question.answers_at(alphas)
    for least in STRICTNESS:
        trajectory = judge_by_words(question.question, question.passage, answers, least)
        scores = support_scores(trajectory)
        if None not in scores and strictly_ranked(scores, alphas):
            return as_reply(trajectory, variant)
    return None


def build_rows(
    settings: SFTSettings, lessons: Sequence[Lesson], tokens: TokenCounter
) -> tuple[list[Row], dict[str, Any]]:
    """Return `(rows of verl's SFT data set, counts)`.

    Lessons with more than `data.max_length` tokens of prompt and reply give no row and are counted. `shown` in the
    counts says, for each K, which alphas its rows have and at which letters (`count_shown`).
    """
    rows: list[Row] = []
    for question, alphas, reply in lessons:
        answers = question.answers_at(alphas)
        prompt = judge_messages(settings.variant, question.question, question.passage, answers)
        messages = [*prompt, {"role": "assistant", "content": reply}]
        if tokens(messages) <= settings.verl.data.max_length:
            rows.append({"messages": messages, "id": question.id, "k": len(alphas), "alphas": alphas})
    by_k = {k: [row["alphas"] for row in rows if row["k"] == k] for k in sorted({row["k"] for row in rows})}
    return rows, {
        "drawn": len(lessons),
        "too_long": len(lessons) - len(rows),
        "train_rows": len(rows),
        "shown": {f"K={k}": count_shown(alphas) for k, alphas in by_k.items()},
    }
