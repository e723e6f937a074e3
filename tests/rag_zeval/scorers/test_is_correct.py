from __future__ import annotations

import json
from typing import Any

import pytest

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.embeddings import OpenAIEmbedder
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scorers.asking_scorer import AskingScorer
from rag_zeval.scorers.embedding_similarity import THRESHOLD, passes
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored

TRUTH = Example("x", "Who?", "a passage", ("Ann.",), "the truth")
PASSAGE = Example("x", "Who?", "a passage", ("Ann.",))


def scored(name: str, judge: Any, example: Example) -> Scored:
    backend = OpenAIBackend("judge", judge.url, max_retries=0)
    embedder = OpenAIEmbedder("vectors", judge.url, max_retries=0)
    (one,) = AskingScorer(MEASURES[name], backend, Sampling(), embedder).score([example])
    return one


@pytest.mark.parametrize(("said", "value"), [(True, 1.0), (False, 0.0), ("true", 1.0), (0, 0.0)])
@pytest.mark.parametrize(("example", "source"), [(TRUTH, "the truth"), (PASSAGE, "a passage")])
def test_a_yes_is_one_and_a_no_is_zero_with_its_reasons(
    said: Any, value: float, example: Example, source: str, scripted_judge: Any
) -> None:
    scripted_judge.replies = json.dumps({"is_correct": said, "reasoning": "It says so."})
    found = scored("is_correct", scripted_judge, example)
    assert (found.values, found.calls) == ((value,), 1)
    assert found.parts["answers"] == [{"is_correct": bool(value), "reasoning": "It says so."}]
    (body,) = scripted_judge.requests
    inputs = {"question": "Who?", "ground_truth_source": source, "answer": "Ann."}
    assert json.dumps(inputs) in body["messages"][0]["content"] and body["temperature"] == 0


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"is_correct": "partially", "reasoning": "so"}, "'partially' is neither 1 nor 0"),
        ({"is_correct": None, "reasoning": "so"}, "'None' is neither 1 nor 0"),
        ({"is_correct": True, "reasoning": " "}, "'' is no text"),
        ({"is_correct": True}, "JSON of another shape"),
        ({"verdict": "accurate", "explanation": "so"}, "JSON of another shape"),
        ("It is correct.", "no JSON"),
    ],
)
def test_no_clear_yes_or_no_is_no_score(reply: Any, reason: str, scripted_judge: Any) -> None:
    scripted_judge.replies = reply if isinstance(reply, str) else json.dumps(reply)
    (score,) = scored("is_correct", scripted_judge, TRUTH).scores
    assert score.value is None and score.status.startswith("failed: is_correct: ") and reason in score.status


@pytest.mark.parametrize(("example", "other"), [(TRUTH, "the truth"), (PASSAGE, "a passage")])
@pytest.mark.parametrize(("angle", "decision"), [((4.0, 3.0), False), ((4.0, 2.9), True), ((-1.0, 0.0), False)])
def test_similarity_is_the_cosine_and_the_decision_stands_beside_it(
    example: Example, other: str, angle: tuple[float, float], decision: bool, scripted_judge: Any
) -> None:
    scripted_judge.vector = lambda text: {"Ann.": list(angle), other: [1.0, 0.0]}[text]
    found = scored("embedding_similarity", scripted_judge, example)
    x, y = angle
    assert found.values == (pytest.approx(x / (x * x + y * y) ** 0.5),)  # 4:3 is 0.8, which is not above it
    assert found.parts["answers"] == [{"threshold": THRESHOLD, "passes": decision}]
    assert found.calls == 2


def test_the_decision_is_about_more_than_the_threshold() -> None:
    assert passes(THRESHOLD + 1e-9) and not passes(THRESHOLD)


def test_a_vector_without_a_direction_is_no_score(scripted_judge: Any) -> None:
    scripted_judge.vector = lambda text: [0.0, 0.0]
    (score,) = scored("embedding_similarity", scripted_judge, TRUTH).scores
    assert score.value is None and score.status == "failed: embedding: a vector is zero, or they differ in length"
