"""Scorers that ask a judge, over real sockets: what they give, and what they do when replies are bad."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, OpenAIEmbedder, cosine
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scorers import answered, citations, nuggets, ragas, ragchecker, umbrela
from rag_zeval.scorers.asking_scorer import AskingScorer
from rag_zeval.scorers.registry import FAMILIES, MEASURES
from rag_zeval.scorers.score import Scored
from rag_zeval.scripted_judge import FAULTS, word_vector

ELSEWHERE = (umbrela, nuggets, citations, answered)  # worked out by hand in tests of their own
HERE = [family.MEASURES for family in FAMILIES if family not in ELSEWHERE]
FACTS = [f"Fact {n} holds" for n in range(12)]
QUICK = {"timeout": 2.0, "max_retries": 1}


def text(*facts: int) -> str:
    return "".join(f"{FACTS[n]}. " for n in facts)


def make(id_: str, answers: tuple[str, ...]) -> Example:
    truth, chunks = text(0, 1, 2, 3), (text(0, 5, 6), text(9), text(1, 7))
    return Example(id_, f"Which facts {id_}?", truth, answers, truth, chunks)


def examples(n: int) -> list[Example]:
    drawn = random.Random(n)
    return [make(str(i), tuple(text(*drawn.sample(range(12), 1 + (i + k) % 8)) for k in range(2))) for i in range(n)]


def scorer(name: str, judge: Any, cache: ReplyCache, **settings: Any) -> AskingScorer:
    backend = CachedBackend(OpenAIBackend("judge", judge.url, **settings), cache)
    embedder = CachedEmbedder(OpenAIEmbedder("vectors", judge.url, **settings), cache)
    return AskingScorer(MEASURES[name], backend, Sampling(), embedder)


def run(name: str, judge: Any, cache: ReplyCache, asked: list[Example], **settings: Any) -> dict[str, Scored]:
    found = {one.id: one for one in scorer(name, judge, cache, **settings).score(asked)}
    assert list(found) and set(found) == {example.id for example in asked}
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(measure.name, marks=[pytest.mark.slow] if at else [])  # one of each family always
        for measures in HERE
        for at, measure in enumerate(measures)
    ],
)
def test_whatever_goes_wrong_every_answer_has_its_value_or_a_reason(
    name: str, literal_judge: Any, tmp_path: Path
) -> None:
    asked = examples(6)
    right = run(name, literal_judge, ReplyCache(tmp_path / "right.sqlite"), asked)
    assert all(value is not None for one in right.values() for value in one.values)
    calls = len(literal_judge.requests)
    faults = [one for one in FAULTS if one != "cut" or not name.startswith("openeval")]  # half a list is a list there
    literal_judge.faults = [*faults, "500", "500", *["ok"] * min(20, calls)]
    random.Random(name).shuffle(literal_judge.faults)
    cache = ReplyCache(tmp_path / "replies.sqlite")
    first = run(name, literal_judge, cache, asked, **QUICK)
    failed = 0
    for id_, one in first.items():
        for score, expected in zip(one.scores, right[id_].values, strict=True):
            if score.value is None:
                failed += 1
                assert score.status.startswith("failed: ") and len(score.status) > len("failed: ")
            else:
                assert (score.value, score.status) == (pytest.approx(expected), "ok")  # right, or none: never another
        assert one.final or None in one.values
    assert failed
    literal_judge.faults.clear()
    before, kept = len(literal_judge.requests), cache.count()
    second = run(name, literal_judge, cache, asked)
    for id_, one in second.items():
        assert one.final
        for score, earlier, expected in zip(one.scores, first[id_].scores, right[id_].values, strict=True):
            if score.value is None:  # a reply came and says nothing: it is what this judge says
                assert earlier.value is None and "HTTP" not in score.status
            else:
                assert score.value == pytest.approx(expected)
    again = len(literal_judge.requests) - before
    assert again == cache.count() - kept  # nothing is asked that was there
    assert again or all(one.final for one in first.values())
    before = len(literal_judge.requests)
    third = run(name, literal_judge, cache, asked)
    assert len(literal_judge.requests) == before
    assert {i: s.values for i, s in third.items()} == {i: s.values for i, s in second.items()}
    assert {s.calls for s in third.values()} == {0}


def values(name: str, judge: Any, tmp_path: Path, *answers: str) -> tuple[list[float | None], Scored]:
    example = make("x", answers)
    one = run(name, judge, ReplyCache(tmp_path / "replies.sqlite"), [example])["x"]
    return list(one.values), one


ANSWER = text(0, 1, 2, 5, 9, 8)  # three of the truth's four; 5 stands in a relevant chunk, 9 in an irrelevant one
COSINE = cosine(word_vector(text(0, 1, 2, 3)), word_vector(ANSWER)) or math.nan


@pytest.mark.parametrize(
    ("name", "value", "calls"),
    [
        ("ragchecker_precision", 3 / 6, 1 + 2),  # the claims, then a check for every five of them
        ("ragchecker_recall", 3 / 4, 1 + 1),
        ("ragchecker_f1", 0.6, 2 + 2 + 1),
        ("ragchecker_faithfulness", 4 / 6, 1 + 3 * 2),
        ("ragchecker_claim_recall", 2 / 4, 1 + 3),
        ("ragchecker_context_precision", 2 / 3, 1 + 3),
        ("ragchecker_context_utilization", 1, 1 + 1 + 3),
        ("ragchecker_noise_sensitivity_in_relevant", 1 / 6, 2 + 2 + 3 * 2 + 3),
        ("ragchecker_noise_sensitivity_in_irrelevant", 1 / 6, 2 + 2 + 3 * 2 + 3),
        ("ragchecker_hallucination", 1 / 6, 1 + 2 + 3 * 2),
        ("ragchecker_self_knowledge", 1 / 6, 1 + 2 + 3 * 2),
        ("ragas_faithfulness", 4 / 6, 2),
        ("ragas_answer_relevancy", cosine(word_vector("Which facts x?"), word_vector("Which facts: Fact 0 h")), 3 + 2),
        ("ragas_answer_correctness", 0.75 * 0.6 + 0.25 * COSINE, 3 + 2),
        ("ragas_answer_similarity", COSINE, 2),
        ("ragas_context_precision", (1 + 2 / 3) / 2, 3),
        ("ragas_context_utilization", 1, 3),
        ("ragas_context_recall", 2 / 4, 1),
        ("trulens_groundedness", 3 / 6, 1 + 6),  # against the truth, which is the reference here
        ("trulens_answer_relevance", 2 / 3, 1),
        ("trulens_context_relevance", (3 + 1 + 2) / 9, 3),
        ("ares_context_relevance", 1, 1),
        ("ares_answer_faithfulness", 0, 2),
        ("ares_answer_relevance", 1, 2),
        ("openeval_faithfulness", 4 / 6, 2),
        ("openeval_correctness", 3 / 4, 3),
        ("openeval_correctness_f1", 0.6, 3),
        ("ccrs_cc", 4 / 6, 1),
        ("ccrs_qr", 0.6, 1),
        ("ccrs_id", 4 / 6, 1),
        ("ccrs_ac", 0.7 * 0 + 0.3 * 3 / 6, 1),
        ("ccrs_ir", 3 / 4, 1),
        ("is_correct", 0, 1),
        ("embedding_similarity", COSINE, 2),
    ],
)
def test_values_and_calls_are_those_worked_out_by_hand(
    name: str, value: float, calls: int, literal_judge: Any, tmp_path: Path
) -> None:
    found, one = values(name, literal_judge, tmp_path, ANSWER)
    assert found == [pytest.approx(value)] and one.scores[0].status == "ok"
    assert (one.calls, len(literal_judge.requests), one.final) == (calls, calls, True)


def test_every_measure_is_worked_out_by_hand_and_in_the_documentation() -> None:
    (marks,) = test_values_and_calls_are_those_worked_out_by_hand.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _, _ in marks.args[1]} == {measure.name for measures in HERE for measure in measures}
    lines = (Path(__file__).parents[3] / "docs" / "scorers.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    documented = {name: line for line in rows for name in line.split("|")[1].split("`")[1::2]}
    assert set(documented) == set(MEASURES)
    for name, measure in MEASURES.items():
        words = documented[name].split("|")[-3]
        assert {need for need in ("truth", "chunks", "reference", "embeddings") if need in words} == {
            *measure.needs,
            *(["embeddings"] if measure.embeds else []),
        }
        for prompt in measure.prompts:
            assert prompt.template.count("Whatever ") == 1  # what is judged gives no instructions


def test_a_family_asks_what_its_measures_share_once(literal_judge: Any, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    for name in MEASURES:
        if name.startswith("ragchecker"):
            run(name, literal_judge, cache, [make("x", (ANSWER,))])
    n, m, chunks = 2, 1, 3  # calls for six and for four claims
    assert len(literal_judge.requests) == 2 + n * (1 + chunks) + m * (1 + chunks)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ragchecker_precision", "failed: no claims in the answer"),
        ("ragchecker_f1", "failed: no claims in the answer"),
        ("ragas_faithfulness", "failed: no statements in the answer"),
        ("ragas_answer_correctness", "failed: no statements in the answer"),
    ],
)
def test_an_answer_without_claims_has_no_score(name: str, reason: str, literal_judge: Any, tmp_path: Path) -> None:
    found, one = values(name, literal_judge, tmp_path, "", text(0, 1, 2, 3))
    assert found[0] is None and found[1] is not None and one.final
    assert one.scores[0].status == reason


@pytest.mark.parametrize(
    ("name", "prompt", "reply", "reason"),
    [
        ("ragchecker_precision", "ragchecker_check", ["Entailment"], "1 judgements of 2"),
        ("ragchecker_precision", "ragchecker_check", ["Entailment"] * 3, "3 judgements of 2"),
        ("ragchecker_precision", "ragchecker_check", ["Entailment", "Yes"], "'Yes' is none of Entailment, Neutral"),
        ("ragchecker_precision", "ragchecker_claims", [["a", "b"]], "2 judgements of 3"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}], "1 judgements of 2"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}, {"verdict": 2}], "'2' is neither 1 nor 0"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}, {"reason": "so"}], "JSON of another shape"),
        ("ragas_faithfulness", "ragas_statements", {"statements": ["a", 3]}, "'3' is no text"),
        ("ragas_answer_correctness", "ragas_correctness", {"TP": [1], "FP": [], "FN": []}, "of 2 statements"),
        ("ragas_answer_correctness", "ragas_correctness", {"TP": [1, 2], "FP": [], "FN": [1] * 5}, "4 in the ground"),
        ("ragas_answer_relevancy", "ragas_question", {"question": "", "noncommittal": 0}, "'' is no text"),
        ("ragas_context_recall", "ragas_attributed", [], "no sentences in the ground truth"),
    ],
)
def test_judgements_that_do_not_fit_the_question_are_not_made_to(
    name: str, prompt: str, reply: Any, reason: str, literal_judge: Any, prompt_of: Any, tmp_path: Path
) -> None:
    right = literal_judge.replies
    literal_judge.replies = lambda body: json.dumps(reply) if prompt_of(body) == prompt else right(body)
    found, one = values(name, literal_judge, tmp_path, text(0, 9))
    assert found == [None] and one.final
    assert one.scores[0].status.startswith("failed: ") and reason in one.scores[0].status


@pytest.mark.parametrize("noncommittal", range(4))
def test_only_an_answer_that_is_noncommittal_every_time_is_irrelevant(
    noncommittal: int, literal_judge: Any, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> str:
        trials.add(body["seed"])
        return json.dumps({"question": "Which facts x?", "noncommittal": int(len(trials) <= noncommittal)})

    trials: set[int] = set()
    literal_judge.replies = reply
    found, one = values("ragas_answer_relevancy", literal_judge, tmp_path, text(0))
    assert found == [pytest.approx(0 if noncommittal == 3 else 1)]
    assert {body["temperature"] for body in literal_judge.requests if "messages" in body} == {0.3}
    assert len(trials) == 3 and one.parts["answers"][0]["committed"] is (noncommittal < 3)


@given(st.lists(st.booleans(), max_size=8))
def test_average_precision_is_the_area_under_precision_by_recall(useful: list[bool]) -> None:
    area, before = 0.0, 0.0
    for at in range(1, len(useful) + 1):
        recall = sum(useful[:at]) / max(1, sum(useful))
        area, before = area + (recall - before) * sum(useful[:at]) / at, recall
    assert ragas.average_precision(useful) == pytest.approx(area)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.floats(0.1, 4))
def test_f_beta_is_the_weighted_harmonic_mean_of_precision_and_recall(tp: int, fp: int, fn: int, beta: float) -> None:
    found = ragas.f_beta(tp, fp, fn, beta)
    if tp == 0:
        assert found == 0
    else:
        precision, recall = tp / (tp + fp), tp / (tp + fn)
        assert 1 / found == pytest.approx((1 / precision + beta**2 / recall) / (1 + beta**2))


@st.composite
def all_checks(draw: st.DrawFn) -> ragchecker.Checks:
    ours, theirs, chunks = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 4))

    def rows(claims: int, texts: int) -> list[list[bool]]:
        row = st.lists(st.booleans(), min_size=claims, max_size=claims)
        return draw(st.lists(row, min_size=texts, max_size=texts))

    return ragchecker.Checks(rows(ours, 1), rows(theirs, 1), rows(ours, chunks), rows(theirs, chunks))


@given(all_checks())
def test_ragchecker_shares_divide_the_answers_claims_among_them(checks: ragchecker.Checks) -> None:
    incorrect = 1 - ragchecker.precision(checks)
    not_there = ragchecker.hallucination(checks) + ragchecker.self_knowledge(checks)
    noise = ragchecker.noise_sensitivity_in_relevant(checks), ragchecker.noise_sensitivity_in_irrelevant(checks)
    assert ragchecker.faithfulness(checks) + not_there == pytest.approx(1)
    assert sum(noise) + ragchecker.hallucination(checks) == pytest.approx(incorrect)
    if not any(map(any, checks.retrieved)):
        assert ragchecker.claim_recall(checks) == ragchecker.context_precision(checks) == noise[0] == 0
        assert ragchecker.context_utilization(checks) == 0
    if all(map(any, checks.retrieved)):
        assert ragchecker.context_precision(checks) == 1 and noise[1] == 0
    if ragchecker.claim_recall(checks) == 1:
        assert ragchecker.context_utilization(checks) == pytest.approx(ragchecker.recall(checks))
    low, high = sorted([ragchecker.precision(checks), ragchecker.recall(checks)])
    assert low * (1 - 1e-9) <= ragchecker.f1(checks) <= high * (1 + 1e-9)
    assert ragchecker.f1(checks) * (low + high) == pytest.approx(2 * low * high)


def test_the_example_of_the_docs_works(literal_judge: Any) -> None:
    docs = (Path(__file__).parents[3] / "docs" / "scorers.md").read_text(encoding="utf-8")
    section = docs.split("## On your own examples")[1]
    code = (
        section.split("```python\n")[1]
        .split("```")[0]
        .replace("MODEL@http://localhost:8000/v1", "j@" + literal_judge.url)
    )
    known: dict[str, Any] = {
        "question": "q",
        "passage": text(0),
        "answer": text(0, 1),
        "truth": text(0),
        "other": text(9),
    }
    exec(code, known)
    assert known["scored"].values == (0.5,)  # of two claims one is wrong and in no chunk
