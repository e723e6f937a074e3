"""Measures that ask one question about an answer, or compare its vector: answered, ccrs, is_correct, the similarity."""

import re
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.scorers.ccrs import exact_match, normalised
from rag_zeval.scorers.overlap import StringMatch
from rag_zeval.scorers.score import Score

EXAMPLE = Example("x", "Who was it?", "a passage", ("The cat.",), "a  CAT", ("One passage.", "Another."))
QUESTION, ANSWER, TRUTH = {"question": "Who was it?"}, {"answer": "The cat."}, {"ground_truth": "a  CAT"}
CONTEXT = {"context": ["One passage.", "Another."]}
KNOWN = "a an the cat Theatre AN 3.5 it's don't — ü 巴黎 巴黎。".split()
WORDS = st.lists(st.sampled_from(KNOWN), max_size=6).map(" ".join)
QUESTIONS: list[tuple[str, Any, Any, Any, float]] = [
    ("answered", {}, {**QUESTION, **ANSWER}, {"answered": "yes"}, 1),
    ("answered", {}, {**QUESTION, **ANSWER}, {"answered": "no"}, 0),
    ("ccrs_cc", {}, {**QUESTION, **CONTEXT, **ANSWER}, {"score": 40}, 0.4),
    ("ccrs_qr", {}, {**QUESTION, **ANSWER}, {"score": 40}, 0.4),
    ("ccrs_id", {}, {**QUESTION, **CONTEXT, **ANSWER}, {"score": 40}, 0.4),
    ("ccrs_ac", {}, {**ANSWER, **TRUTH, **CONTEXT}, {"score": 40}, 0.7 + 0.3 * 0.4),
    ("ccrs_ac", {"truth": "dog"}, {**ANSWER, "ground_truth": "dog", **CONTEXT}, {"score": 40}, 0.3 * 0.4),
    ("ccrs_ac", {"chunks": ()}, {**ANSWER, **TRUTH}, {"score": 100}, 1),
    ("ccrs_ir", {}, {**ANSWER, **TRUTH}, {"score": 40}, 0.4),
    *(
        ("is_correct", {"truth": truth}, {**QUESTION, "ground_truth_source": source, **ANSWER}, reply, value)
        for truth, source in (("a  CAT", "a  CAT"), (None, "a passage"))
        for reply, value in (
            ({"is_correct": True, "reasoning": "It says so."}, 1),
            ({"is_correct": "false", "reasoning": "It does not."}, 0),
        )
    ),
]


@pytest.mark.parametrize(("measure", "changes", "inputs", "reply", "value"), QUESTIONS)
def test_each_is_one_call_about_its_own_inputs(
    measure: str, changes: Any, inputs: Any, reply: Any, value: float
) -> None:
    judge = JudgeByPrompt({measure: reply})
    scored = judge.score(measure, replace(EXAMPLE, **changes))
    assert scored.values == (pytest.approx(value),) and scored.calls == 1
    assert judge.asked == [(measure, inputs)] and judge.temperatures == {0}
    if measure == "is_correct":
        assert scored.parts["answers"] == [{"is_correct": bool(value), "reasoning": reply["reasoning"]}]


@pytest.mark.parametrize(("truth", "source"), [("the truth", "the truth"), (None, "a passage")])
@pytest.mark.parametrize("angle", [(4.0, 3.0), (-1.0, 0.0)])
def test_similarity_is_the_cosine(truth: str | None, source: str, angle: tuple[float, float]) -> None:
    vectors = {"The cat.": angle, source: (1.0, 0.0)}
    scored = JudgeByPrompt({}).score("embedding_similarity", replace(EXAMPLE, truth=truth), vectors.__getitem__)
    x, y = angle
    assert scored.values == (pytest.approx(x / (x * x + y * y) ** 0.5),) and scored.calls == 2


@given(WORDS, WORDS)
@example("The ferry takes 45 minutes, and dogs are free.", "45 MINUTES")
def test_a_string_matches_as_far_as_its_longest_run_of_words(answer: str, truth: str) -> None:
    said, wanted = (re.findall("[a-zü0-9]+|[巴黎]", text.lower()) for text in (answer, truth))
    runs = [wanted[at:end] for at in range(len(wanted)) for end in range(at, len(wanted) + 1)]
    found = max((len(run) for run in runs if f" {' '.join(run)} " in f" {' '.join(said)} " or not run), default=0)
    score = StringMatch()._score(replace(EXAMPLE, truth=truth, reference="?!"), answer)
    if wanted:
        assert score.value == found / len(wanted)
    else:
        assert score == Score(None, "failed: no word in the ground truth")


def test_a_name_with_underscores_is_a_word() -> None:
    example = replace(EXAMPLE, truth="call __init__")
    assert StringMatch()._score(example, "Just call it.").value == 0.5


@given(WORDS, WORDS)
def test_only_case_punctuation_articles_and_spaces_are_no_difference(first: str, second: str) -> None:
    def kept(text: str) -> list[str]:
        bare = text.lower().translate(str.maketrans("", "", string.punctuation + "—。"))
        return [word for word in bare.split() if word not in ("a", "an", "the")]

    assert exact_match(first, second) == (kept(first) == kept(second) != [])
    assert normalised(normalised(first)) == normalised(first)
