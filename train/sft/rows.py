"""What supervised fine-tuning teaches about the answers that reinforcement learning ranks, without a label of people.

The prompt `ranking-only`: their letters, largest α first (the SFT ranker). Any other: the word rule's trajectory, a
cold start for a base that cannot write one.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_zeval.errors import InputError
from rag_zeval.judge.parser import as_reply
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.judge.scoring import strictly_ranked, support_scores
from rag_zeval.scorers.word_rule import STRICTNESS, judge_by_words
from rag_zeval.stages.answer_quality import REASONS, Flags, blocking_reason
from train.curriculum import Question, Row, TokenCounter, candidate_sets, count_shown, listed, shuffled
from train.settings import SFTSettings

UNRANKED = "unranked"


class Lesson(NamedTuple):
    """Answers to one question, by the α of candidates A, B, ... as shown, and the reply that is taught."""

    question: Question
    alphas: list[float]
    reply: str


def draw_lessons(
    settings: SFTSettings, questions: Sequence[Question], flags: Mapping[str, Flags]
) -> tuple[list[Lesson], list[Row]]:
    """`(lessons, counts)`: for each stage its number of sets of K candidates, question after question.

    Of a question come all the sets that it has, or `sets_per_question` of them; those that the word rule cannot rank as
    α does teach no trajectory, and are passed over. The prompt, `variant`, decides what is taught.

    A question is used for one K only (paper, Table 7: 5,500 questions give 3,877 pairs, 3,874 triplets, 3,883
    quadruplets). `flags` of each question by its id. The counts of a stage have the questions that gave no set when
    their turn came, by reason; they are there for the next. Raises InputError, with the figures, when too few remain.
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
    """The question's sets of k answers with what is taught about them, or no set and the reason."""
    if reason := blocking_reason(flags, question.answers, k):
        return [], reason
    lessons = []
    for alphas in candidate_sets(question, k, seed, flags):
        reply = ranking_reply(alphas) if variant == RANKING.name else rule_reply(question, alphas, variant)
        if reply is not None:
            lessons.append(Lesson(question, alphas, reply))
    return lessons, None if lessons else UNRANKED


def ranking_reply(alphas: Sequence[float]) -> str:
    """`["C", "A", "B"]`: the letters of candidates A, B, ... by falling α."""
    by_letter = dict(zip(LETTERS, alphas, strict=False))
    return json.dumps(sorted(by_letter, key=lambda letter: -by_letter[letter]))


def rule_reply(question: Question, alphas: Sequence[float], variant: str) -> str | None:
    """The word rule's trajectory that ranks the answers as α does; None if no share of STRICTNESS gives one.

    α is a weak label here: it chooses how strict the rule is with these answers, and drops those that it would rank
    wrongly or not at all. An answer without a sentence has no claim and no rank.
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
    """`(rows of verl's SFT data set, counts)`; rows of over `data.max_length` tokens in all are counted, not built.

    Of the counts `shown` has, for each K, which alphas stand in its rows, and at which letter.
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
