"""The chosen CAD prompts: known truth, four or two answers, the same choice each time."""

from __future__ import annotations

from typing import Any

import pytest

from eval_benchmarks.datasets.nano_cad import ROWS, NanoCad, choose
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.stages import world


def responses(count: int) -> list[dict[str, Any]]:
    """Answers with 0, 1, 2 and 3 facts wrong to even questions, 0, 0, 1 and 1 to odd ones."""
    import random

    rows = []
    for at, asked in enumerate(world.questions("test", count, 3)):
        rng = random.Random(at)
        wrong = (0, 1, 2, 3) if at % 2 == 0 else (0, 0, 1, 1)
        texts = [world.answer_with_errors(asked, n, rng) for n in wrong]
        rows.append(
            {"id": asked.id, "status": "ok", "responses": [{"alpha": -i, "text": t} for i, t in enumerate(texts)]}
        )
    return rows


def test_only_answers_that_can_be_ranked_are_chosen() -> None:
    rows = choose(responses(40), 15)
    assert rows == choose(responses(40), 15)
    assert [len(row["answers"]) for row in rows] == [4] * 15 + [2] * 15
    assert len({row["id"] for row in rows}) == 30
    for row in rows:
        facts = world.find_question(row["id"]).facts
        assert len({world.true_support(text, facts) for text in row["answers"]}) == len(row["answers"])
    with pytest.raises(InputError, match="40 questions gave 20 prompts with K=4, 21 are wanted"):
        choose(responses(40), 21)


def test_the_true_support_ranks_the_answers(score_by: Any) -> None:
    benchmark = NanoCad(choose(responses(20), 5))

    def supports(at: int) -> list[float | None]:
        facts = world.find_question(benchmark.examples[at].id).facts
        return [world.true_support(text, facts) for text in benchmark.examples[at].answers]

    assert {m.value for m in benchmark.metrics(score_by(benchmark, supports))} == {1.0}


def test_the_shipped_prompts_are_about_remembered_test_people_and_stay_as_they_were_fixed() -> None:
    benchmark = NanoCad(read_jsonl(ROWS))
    assert [len(e.answers) for e in benchmark.examples] == [4] * 500 + [2] * 500
    assert {world.find_question(e.id).person for e in benchmark.examples} <= set(world.remembered_people("test"))
    assert benchmark.data_hash == "ae2707ddcc97b3f61c71a6d01430c7984174791328f245a5bb53af391afd5a6f"
