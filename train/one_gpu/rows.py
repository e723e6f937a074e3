"""Build the training and validation rows of `python -m train.one_gpu`."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, PositiveInt

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.stages.config import Section, load_config, word
from train.curriculum import (
    Question,
    TokenCounter,
    build_curriculum,
    build_row,
    candidate_sets,
    describe,
    flag_questions,
    prompt_counter,
    read_questions,
)
from train.settings import TrainSettings, typed_settings

RULE = "all-pairs"  # the accuracy reward of train.one_gpu
AtLeastTwo = Annotated[int, Field(ge=2, description="a whole number of at least 2")]


class RowKind(Section):
    """Settings of rows from the same responses, with the same K. The keys correspond to those of configs/train.yaml."""

    responses: str
    k: AtLeastTwo
    turns: PositiveInt
    max_prompt_tokens: PositiveInt
    max_rule_tokens: PositiveInt | None
    single_answer_every: AtLeastTwo | None

    def train_settings(self, profile: str, validation_questions: int) -> TrainSettings:
        """Return the settings with which `make train` would build these rows.

        Raises InputError if it refuses them, or if the profile has another reward than the one that is trained here.
        """
        settings = typed_settings(
            TrainSettings,
            load_config(
                "train",
                [
                    f"profile={profile}",
                    word("responses", self.responses),
                    word("stages", [{"k": self.k, "rows": None}] * self.turns),
                    word("validation", [{"k": self.k, "rows": validation_questions}]),
                    word("single_answer_every", self.single_answer_every),
                    word("max_rule_tokens", self.max_rule_tokens),
                    word("verl.data.max_prompt_length", self.max_prompt_tokens),
                ],
            ),
        )
        if settings.accuracy != RULE:
            raise InputError(f"profile={profile}: train.accuracy={settings.accuracy}: train.one_gpu has only {RULE}")
        return settings


class Validation(Section):
    """Settings of validation: number of questions, and the most sets of candidates for each question."""

    questions: PositiveInt
    sets: PositiveInt


def build_rows(profile: str, kinds: Sequence[RowKind], validation: Validation) -> tuple[list[Row], list[Row]]:
    """Return training and validation rows. Validation rows are of the first kind.

    No training row has a question of a validation row. Raises InputError if answers cannot be read or are too few, and
    if no validation row is left.
    """
    train: list[Row] = []
    val: list[Row] = []
    asked: set[str] = set()  # ids of the validation questions
    for at, kind in enumerate(kinds):
        settings = kind.train_settings(profile, validation.questions if at == 0 else 1)
        everything, _ = read_questions(settings.responses, settings.alphas, settings.half)
        questions, tokens = [one for one in everything if one.id not in asked], prompt_counter(settings.base_model)
        curriculum = build_curriculum(settings, questions, tokens)
        if at == 0:
            asked = {row["extra_info"]["id"] for row in curriculum.val}
            chosen = [question for question in questions if question.id in asked]
            val = list(validation_rows(settings, chosen, kind.k, validation.sets, tokens))
            if not val:
                raise InputError("validation: no set of candidates is left; ask for more questions")
        print(*describe(curriculum.counts), sep="\n")
        train += curriculum.train
    return train, val


def validation_rows(
    settings: TrainSettings, questions: Sequence[Question], k: int, sets: int, tokens: TokenCounter
) -> Iterator[Row]:
    """Yield up to `sets` rows of each question, except the pair of its answers at the two smallest of more α.

    Which of those two is better is almost chance (docs/small-results.md).
    """
    flags = flag_questions(questions, {"stages": settings.stages}, settings.answer_filter)

    def rows(question: Question) -> Iterator[Row]:
        smallest = set(sorted(question.answers)[:2]) if len(question.answers) > 2 else set()
        for alphas in candidate_sets(question, k, settings.seed, flags[question.id]):
            row = build_row(question, alphas, settings.variant)
            if set(alphas) != smallest and tokens(row["prompt"]) <= settings.verl.data.max_prompt_length:
                yield row

    for question in questions:
        yield from itertools.islice(rows(question), sets)
