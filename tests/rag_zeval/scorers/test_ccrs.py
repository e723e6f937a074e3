from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scorers.asking_scorer import AskingScorer
from rag_zeval.scorers.ccrs import answer_correctness, exact_match, normalised
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Score

EXAMPLE = Example("x", "Who was it?", "ref", ("The cat.", "A dog!"), "a  CAT", ("One passage.", "Another."))
BARE = Example("x", "Who was it?", "ref", ("The cat.",), "a  CAT")
WORDS = st.lists(st.sampled_from("a an the cat Theatre AN 3.5 it's don't — ü".split()), max_size=6).map(" ".join)


def score(name: str, judge: Any, reply: Any, example: Example = EXAMPLE) -> tuple[Score, ...]:
    judge.replies = reply if isinstance(reply, str) else json.dumps(reply)
    backend = OpenAIBackend("judge", judge.url, max_retries=0)
    (scored,) = AskingScorer(MEASURES[name], backend, Sampling()).score([example])
    return scored.scores


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ccrs_cc", ["question", "context", "answer"]),
        ("ccrs_qr", ["question", "answer"]),
        ("ccrs_id", ["question", "context", "answer"]),
        ("ccrs_ac", ["answer", "ground_truth", "context"]),
        ("ccrs_ir", ["answer", "ground_truth"]),
    ],
)
def test_each_measure_is_one_call_an_answer_about_its_own_inputs(
    name: str, told: list[str], scripted_judge: Any
) -> None:
    matches = [0.7, 0.0] if name == "ccrs_ac" else [0.0, 0.0]
    weight = 0.3 if name == "ccrs_ac" else 1.0
    found = score(name, scripted_judge, {"score": 40})
    assert [one.value for one in found] == pytest.approx([match + weight * 0.4 for match in matches])
    everything = {
        "question": EXAMPLE.question,
        "context": list(EXAMPLE.chunks),
        "ground_truth": EXAMPLE.truth,
    }
    seen = []
    for body in scripted_judge.requests:
        content = body["messages"][0]["content"]
        inputs = json.loads(content[content.index("Input:\n") + 7 : content.rindex("\nOutput:")])
        assert list(inputs) == told
        assert all(inputs[key] == everything[key] for key in told if key != "answer")
        assert body["temperature"] == 0
        seen.append(inputs["answer"])
    assert sorted(seen) == sorted(EXAMPLE.answers)


def test_answer_correctness_does_without_a_context_and_the_others_say_what_they_lack(scripted_judge: Any) -> None:
    assert score("ccrs_ac", scripted_judge, {"score": 100}, BARE) == (Score(1.0),)
    assert '"context"' not in scripted_judge.requests[0]["messages"][0]["content"].rpartition("Input:")[2]
    for name in ("ccrs_cc", "ccrs_id"):
        assert score(name, scripted_judge, {"score": 100}, BARE) == (Score(None, "failed: the example has no chunks"),)
    assert len(scripted_judge.requests) == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"score": 101}, "'101' is no number from 0 to 100"),
        ({"score": -1}, "'-1' is no number from 0 to 100"),
        ({"score": True}, "'True' is no number"),
        ({"score": None}, "'None' is no number"),
        ({"score": "eighty"}, "JSON of another shape"),
        ({"score": [80]}, "'[80]' is no number"),
        ({"rating": 80}, "JSON of another shape"),
        ("10", "no JSON in the reply '10'"),  # it might be the beginning of 100 that was cut off
        ('{"score": 80} or {"score": 20}', "2 different answers"),
        ("I would say eighty out of a hundred.", "no JSON"),
        ("", "the reply is empty"),
    ],
)
def test_a_number_that_is_not_clear_is_no_score(reply: Any, reason: str, scripted_judge: Any) -> None:
    for name in ("ccrs_qr", "ccrs_ac"):  # nor is the exact match alone
        for one in score(name, scripted_judge, reply):
            assert one.value is None and one.status.startswith(f"failed: {name}: ") and reason in one.status


@given(st.floats(0, 100), st.booleans())
def test_answer_correctness_is_seven_tenths_exact_match(number: float, matches: bool) -> None:
    found = answer_correctness(matches, number / 100)
    assert found == pytest.approx((70 * matches + 0.3 * number) / 100)
    assert 0 <= found <= 1 + 1e-12
    assert (found >= 0.7 - 1e-12) == matches


@given(WORDS, WORDS)
def test_only_case_punctuation_articles_and_spaces_are_no_difference(first: str, second: str) -> None:
    def kept(text: str) -> list[str]:
        bare = text.lower().translate(str.maketrans("", "", string.punctuation))
        return [word for word in bare.split() if word not in ("a", "an", "the")]

    assert exact_match(first, second) == (kept(first) == kept(second) != [])
    assert normalised(normalised(first)) == normalised(first)


def test_exact_match_by_example() -> None:
    assert exact_match("The  Theatre, of a cat!", "theatre of cat")
    assert not exact_match("Theatre", "the atre") and not exact_match("3.5", "3,6")
    assert not exact_match("the", "a") and not exact_match("", "")
