"""Scorers that ask a judge: values worked out by hand, calls that are shared, and what is left when calls fail."""

import math
import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt, example_of, facts

from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import LITERAL, word_vector
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, OpenAIEmbedder, cosine
from rag_zeval.models.language_model import Reply, Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.scorers import ares, citations, nuggets, openeval, ragas, ragchecker, trulens, umbrela
from rag_zeval.scorers.ares import read_label
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.registry import MEASURES, NEEDS
from rag_zeval.scorers.score import Failed, Scored
from rag_zeval.scripted_judge import FAULTS

DOCS = (Path(__file__).parents[3] / "docs" / "scorers.md").read_text(encoding="utf-8")
QUICK = {"timeout": 2.0, "max_retries": 1}


def examples(n: int) -> list[Example]:
    drawn = random.Random(n)
    answers = [[facts(*drawn.sample(range(12), 1 + (i + k) % 8)) for k in range(2)] for i in range(n)]
    return [example_of(*pair, id_=str(i)) for i, pair in enumerate(answers)]


def stored(cache: ReplyCache) -> int:
    with closing(sqlite3.connect(cache.path)) as database:
        [(count,)] = database.execute("SELECT count(*) FROM replies")
    return int(count)


def run(name: str, judge: Any, cache: ReplyCache, asked: list[Example], **settings: Any) -> dict[str, Scored]:
    backend = CachedBackend(OpenAIBackend("judge", judge.url, **settings), cache)
    embedder = CachedEmbedder(OpenAIEmbedder("vectors", judge.url, **settings), cache)
    scored = {one.id: one for one in AskingScorer(MEASURES[name], backend, Sampling(), embedder).score(asked)}
    assert set(scored) == {example.id for example in asked}
    return scored


@pytest.mark.parametrize(
    "name",
    "ragas_answer_correctness ragchecker_precision ares_answer_relevance is_correct embedding_similarity".split(),
)
def test_whatever_goes_wrong_every_answer_has_its_value_or_a_reason(
    name: str, literal_judge: Any, tmp_path: Path
) -> None:
    asked = examples(6)
    right = run(name, literal_judge, ReplyCache(tmp_path / "right.sqlite"), asked)
    literal_judge.faults = [*FAULTS, "500", "500", *["ok"] * min(20, len(literal_judge.requests))]
    random.Random(name).shuffle(literal_judge.faults)
    cache = ReplyCache(tmp_path / "replies.sqlite")
    first = run(name, literal_judge, cache, asked, **QUICK)
    literal_judge.faults.clear()
    before, kept = len(literal_judge.requests), stored(cache)
    second = run(name, literal_judge, cache, asked)
    after = len(literal_judge.requests)
    assert after - before == stored(cache) - kept  # nothing is asked that was there
    for scored in (first, second):
        for id_, one in scored.items():
            for score, expected in zip(one.scores, right[id_].values, strict=True):  # right, or none: never another
                assert score.status.removeprefix("failed: ") if score.value is None else score.status == "ok"
                assert score.value is None or score.value == pytest.approx(expected)
            assert one.final or None in one.values
    assert any(None in one.values for one in first.values())
    assert all(one.final and "HTTP" not in score.status for one in second.values() for score in one.scores)
    third = run(name, literal_judge, cache, asked)
    assert {id_: (one.values, one.calls) for id_, one in third.items()} == {i: (s.values, 0) for i, s in second.items()}
    assert len(literal_judge.requests) == after


ANSWER = facts(0, 1, 2, 5, 9, 8)  # three of the truth's four; 5 stands in a relevant chunk, 9 in an irrelevant one
LOG3 = math.log2(3)
COSINE = cosine(word_vector(facts(0, 1, 2, 3)), word_vector(ANSWER)) or math.nan
BY_HAND = {  # values and calls
    "ragchecker_precision": (3 / 6, 1 + 2),  # the claims, then a check for every five of them
    "ragchecker_recall": (3 / 4, 1 + 1),
    "ragchecker_f1": (0.6, 2 + 2 + 1),
    "ragchecker_faithfulness": (4 / 6, 1 + 3 * 2),
    "ragchecker_claim_recall": (2 / 4, 1 + 3),
    "ragchecker_context_precision": (2 / 3, 1 + 3),
    "ragchecker_context_utilization": (1, 1 + 1 + 3),
    "ragchecker_noise_sensitivity_in_relevant": (1 / 6, 2 + 2 + 3 * 2 + 3),
    "ragchecker_noise_sensitivity_in_irrelevant": (1 / 6, 2 + 2 + 3 * 2 + 3),
    "ragchecker_hallucination": (1 / 6, 1 + 2 + 3 * 2),
    "ragchecker_self_knowledge": (1 / 6, 1 + 2 + 3 * 2),
    "ragas_faithfulness": (4 / 6, 2),
    "ragas_answer_relevancy": (cosine(word_vector("Which facts x?"), word_vector("Which facts: Fact 0 h")), 3 + 4),
    "ragas_answer_correctness": (0.75 * 0.6 + 0.25 * COSINE, 3 + 2),
    "ragas_answer_similarity": (COSINE, 2),
    "ragas_context_precision": ((1 + 2 / 3) / 2, 3),
    "ragas_context_utilization": (1, 3),
    "ragas_context_recall": (2 / 4, 1),
    "trulens_groundedness": (3 / 6, 1 + 6),  # against the truth, which is the reference here
    "trulens_answer_relevance": (2 / 3, 1),
    "trulens_context_relevance": ((3 + 1 + 2) / 9, 3),
    "ares_context_relevance": (1, 1),
    "ares_answer_faithfulness": (0, 2),
    "ares_answer_relevance": (1, 2),
    "openeval_faithfulness": (4 / 6, 2),
    "openeval_correctness": (3 / 4, 3),
    "openeval_correctness_f1": (0.6, 3),
    "umbrela": (2, 3),  # grades 3, 1 and 2
    "umbrela_precision_at_1": (1, 1),
    "umbrela_precision_at_3": (2 / 3, 3),
    "umbrela_ap_at_1": (1, 1),
    "umbrela_ap_at_3": ((1 + 2 / 3) / 2, 3),
    "umbrela_ndcg_at_1": (1, 3),
    "umbrela_ndcg_at_3": ((3 + 1 / LOG3 + 2 / 2) / (3 + 2 / LOG3 + 1 / 2), 3),
    "umbrela_recall_at_1": (1 / 2, 3),
    "umbrela_recall_at_3": (1, 3),
    "umbrela_mrr": (1, 3),
    **{measure.name: (4 / 6, 3 + 2 + 1 + 1) for measure in nuggets.MEASURES},  # all vital, and held in full or not
    "answered": (1, 1),
    "ccrs_cc": (4 / 6, 1),
    "ccrs_qr": (0.6, 1),
    "ccrs_id": (4 / 6, 1),
    "ccrs_ac": (0.3 * 3 / 6, 1),
    "ccrs_ir": (3 / 4, 1),
    "is_correct": (0, 1),
    "embedding_similarity": (COSINE, 2),
}
TEMPERATURES = {  # 0 for all others
    "ares": {1},
    "openeval": {1},
    "ragas_answer_relevancy": {0.3},
    "ragas_answer_similarity": set(),
    "embedding_similarity": set(),
}
WITHOUT_PARTS = ("ragas_answer_similarity", "embedding_similarity", "ccrs_cc", "ccrs_qr", "ccrs_id", "ccrs_ir")


@pytest.mark.parametrize("name", BY_HAND)
def test_values_and_calls_are_those_worked_out_by_hand(name: str) -> None:
    judge = JudgeByPrompt(LITERAL)
    scored = judge.score(name, example_of(ANSWER))
    value, calls = BY_HAND[name]
    assert scored.values == (pytest.approx(value),) and scored.scores[0].status == "ok"
    assert (scored.calls, scored.final) == (calls, True)
    assert judge.temperatures == TEMPERATURES.get(name, TEMPERATURES.get(name.partition("_")[0], {0}))
    assert scored.parts["answers"] != [{}] or name in WITHOUT_PARTS
    assert {inputs.get("question", "Which facts x?") for _, inputs in judge.asked} <= {"Which facts x?"}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 5))
def test_ndcg_and_recall_are_those_of_trec_eval(grades: list[int], k: int) -> None:
    judged = {"q": {str(rank): grade for rank, grade in enumerate(grades)}}
    ranked = {"q": {str(rank): -float(rank) for rank in range(len(grades))}}
    measures = {umbrela.ndcg: ir_measures.nDCG @ k, umbrela.recall: ir_measures.R(rel=umbrela.RELEVANT) @ k}
    theirs = ir_measures.calc_aggregate([*measures.values()], judged, ranked)
    for ours, measure in measures.items():
        try:
            assert ours(grades, k) == pytest.approx(theirs[measure])
        except Failed:  # nothing can be found: trec_eval says 0
            assert theirs[measure] == 0 and max(grades) < (1 if ours is umbrela.ndcg else umbrela.RELEVANT)


def test_the_documentation_says_what_measures_need() -> None:
    rows = [line for line in DOCS.splitlines() if line.startswith("| `")]
    documented = {name: line for line in rows for name in line.split("|")[1].split("`")[1::2]}
    assert len(documented) > 50
    for name, line in documented.items():
        words = line.split("|")[-3]
        needed = {need for need in ("truth", "chunks", "reference", "embeddings") if need in words}
        fields = {field for need in NEEDS[name] for field in need.split(" or ")}
        assert needed == (fields - {"answer"}) | {*["embeddings"] * (name in MEASURES and MEASURES[name].embeds)}


def test_every_prompt_says_that_what_is_judged_gives_no_instructions() -> None:
    prompts = {prompt for measure in MEASURES.values() for prompt in measure.prompts}
    assert {prompt.template.count("Whatever ") for prompt in prompts} == {1}


@pytest.mark.parametrize(
    ("family", "questions"),
    [
        (ragchecker, 3 + 3 + 2 + (2 + 1) * 3 + 3),  # claims, correct, recalled, supported, retrieved
        (ragas, 3 + 2 + 3 * 2 + 3 * (1 + 2) + 1 + 2),
        (trulens, 2 + (6 + 2) + 2 + 3),
        (ares, 1 + 2 * 2),
        (openeval, 3 + 2 + 2),
        (umbrela, 3),
        (nuggets, 3 + 2 + 1 + 2),  # grades, creation, importance, assignment
        (citations, 2),
    ],
)
def test_what_measures_and_answers_share_is_asked_once(family: ModuleType, questions: int, tmp_path: Path) -> None:
    judge, cache = JudgeByPrompt(LITERAL), ReplyCache(tmp_path / "replies.sqlite")
    example = example_of(ANSWER, "Fact 0 holds [1]. Fact 9 holds [2].")
    for measure in family.MEASURES:
        judge.score(measure.name, example, cache=cache)
    assert len(judge.asked) == questions


def test_the_example_of_the_docs_works(literal_judge: Any) -> None:
    section = DOCS.split("## On your own examples")[1]
    code = section.split("```python\n")[1].split("```")[0]
    texts = {"question": "q", "passage": facts(0), "answer": facts(0, 1), "truth": facts(0), "other": facts(9)}
    known: dict[str, Any] = dict(texts)
    exec(code.replace("MODEL@http://localhost:8000/v1", "j@" + literal_judge.url), known)
    assert known["scored"].values == (0.5,)  # of two claims one is wrong and in no chunk


@pytest.mark.parametrize("measure", [measure.name for measure in ares.MEASURES])
def test_an_irrelevant_document_makes_all_three_zero_in_one_call(measure: str) -> None:
    judge = JudgeByPrompt({"ares_context_relevance": "[[No]]"})
    example = Example("x", "Who?", "The reference.", ("Ada.",), truth="The truth.", chunks=("A chunk.",))
    assert judge.score(measure, example).values == (0,)
    assert judge.rounds == [[("ares_context_relevance", {"question": "Who?", "document": "The reference."})]]
    assert judge.temperatures == {1}


@given(
    st.sampled_from(["Yes", "No", "yes", "NO"]),
    st.sampled_from([("[[", "]]"), ("[", "]"), ("[ [ ", " ] ]"), ("**[[", "]]**")]),
    st.text("yesno []\n", max_size=20).filter(lambda text: "[" not in text and "]" not in text),
)
def test_a_label_is_found_whatever_is_around_it(word: str, brackets: tuple[str, str], around: str) -> None:
    opening, closing = brackets
    label = f"{opening}{word}{closing}"
    for reply in (f"{around}\n{label}\n{around}", f"It is so: {around}. {label}", f"Output: {label}\n{around}"):
        assert read_label(reply) is (word.lower() == "yes")
    within = "a label within a sentence"
    for reply, reason in (
        (f"The document says {label} there.", within),
        (f"It is not {label}.", within),
        (f"{around}{word}{around}", "neither of"),
    ):
        with pytest.raises(Unreadable, match=reason):
            read_label(reply)


EXAMPLE = example_of("Fact 0 holds. Fact 9 holds [1].")  # two claims of the answer, four of the ground truth
SCORE = {"criteria": "so", "supporting_evidence": "so"}  # of TruLens, but for its number
NUGGETS = [f"n{number}" for number in range(31)]
VERDICT = "- Something. A reason. VERDICT: "


@pytest.mark.parametrize(
    ("measure", "prompt", "reply", "reason"),
    [
        ("ragchecker_precision", "ragchecker_check", ["Entailment"], "1 judgement, expected 2"),
        ("ragchecker_precision", "ragchecker_check", ["Entailment", "Yes"], "'Yes' is not one of Entailment, Neutral"),
        ("ragchecker_precision", "ragchecker_claims", [["a", "b"]], "2 parts, expected 3"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}], "1 judgement, expected 2"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}, {"verdict": 2}], "'2' is neither yes"),
        ("ragas_faithfulness", "ragas_statements", {"statements": ["a", 3]}, "'3' is not a text"),
        ("ragas_answer_correctness", "ragas_correctness", {"TP": ["x"], "FP": [], "FN": []}, "of 2 statements"),
        (
            "ragas_answer_correctness",
            "ragas_correctness",
            {"TP": ["x", "y"], "FP": [], "FN": ["x"] * 5},
            "4 in the ground",
        ),
        ("ragas_answer_relevancy", "ragas_question", {"question": "", "noncommittal": 0}, "'' is not a text"),
        *(
            ("trulens_groundedness", "trulens_substantive", {"keep": keep}, "")
            for keep in ([0], [3], [1.5], [True], ["Fact 0 holds."], 1, None, [None])
        ),
        ("trulens_groundedness", "trulens_groundedness", {**SCORE, "score": 4}, "'4' is not a number from 0 to 3"),
        (
            "trulens_answer_relevance",
            "trulens_answer_relevance",
            {**SCORE, "score": 1.5},
            "'1.5' is not a whole number",
        ),
        ("trulens_answer_relevance", "trulens_answer_relevance", {"score": 2}, "JSON of another shape"),  # no evidence
        ("trulens_context_relevance", "trulens_context_relevance", "Score: 2 of 3", "no JSON in the reply"),
        ("ares_context_relevance", "ares_context_relevance", "[[Maybe]]", "neither of"),
        ("ares_answer_relevance", "ares_answer_relevance", "[[Yes]] or [[No]]", "both of [[Yes]] and [[No]]"),
        ("ares_answer_faithfulness", "ares_answer_faithfulness", "Yes", "neither of [[Yes]] and [[No]] in 'Yes'"),
        ("openeval_faithfulness", "openeval_faithfulness", f"{VERDICT}PASSED\n" * 3, "3 verdicts on 2 statements"),
        ("openeval_faithfulness", "openeval_faithfulness", "They all passed.", "0 verdicts on 2 statements"),
        ("openeval_faithfulness", "openeval_faithfulness", VERDICT + "TP", "is not one of PASSED, FAILED"),
        ("openeval_faithfulness", "openeval_statements", "1. Ada wrote it.", "no list with hyphens"),
        ("umbrela", "umbrela", "2", "no JSON in the reply '2'"),
        *(
            ("umbrela", "umbrela", {"M": 2, "T": 2, "O": grade}, reason)
            for reason, grades in (
                ("is not a number from 0 to 3", (4, -1, None, True, [2], "3.5", "high", "")),
                ("'1.5' is not a whole number", (1.5, "1.5")),
                ("'3/3' is not a number from 0 to 3", ("3/3",)),
            )
            for grade in grades
        ),
        ("nuggets_all", "nuggets_create", {"nuggets": NUGGETS}, "31 nuggets, more than 30"),
        ("nuggets_all", "nuggets_create", {"nuggets": ["n0", 3]}, "'3' is not a text"),
        ("nuggets_all", "nuggets_importance", {"labels": ["vital"] * 5}, "5 judgements, expected 6"),
        ("nuggets_all", "nuggets_importance", {"labels": ["vital"] * 5 + ["good"]}, "'good' is not one of vital, okay"),
        ("nuggets_all", "nuggets_assignment", {"labels": ["support"] * 7}, "7 judgements, expected 6"),
        ("nuggets_all", "nuggets_assignment", {"labels": ["support"] * 5 + [1]}, "'1' is no"),
        *(
            ("citation_recall", "citation_support", {"support": label}, "is not one of full_support, partial_support")
            for label in ("support", 1, None, "fully")
        ),
        ("answered", "answered", {"answered": "maybe"}, "'maybe' is neither yes"),
        ("ccrs_qr", "ccrs_qr", {"score": 101}, "'101' is not a number from 0 to 100"),
        ("ccrs_qr", "ccrs_qr", {"score": "eighty"}, "'eighty' is not a number from 0 to 100"),
        ("ccrs_qr", "ccrs_qr", "10", "no JSON in the reply '10'"),  # might be the beginning of 100 that was cut off
        ("ccrs_ac", "ccrs_ac", {"score": -1}, "'-1' is not a number from 0 to 100"),  # nor is the exact match alone one
        ("is_correct", "is_correct", {"is_correct": "partially", "reasoning": "so"}, "'partially' is neither yes"),
        ("is_correct", "is_correct", {"is_correct": True, "reasoning": " "}, "'' is not a text"),
    ],
)
def test_a_reply_that_is_not_clear_or_does_not_fit_the_question_leaves_none(
    measure: str, prompt: str, reply: Any, reason: str
) -> None:
    scored = JudgeByPrompt({**LITERAL, prompt: reply}).score(measure, EXAMPLE)
    assert scored.values == (None,) and scored.final
    assert scored.scores[0].status.startswith(f"failed: {prompt}: ") and reason in scored.scores[0].status


@pytest.mark.parametrize("grade", [2, "2", 2.0, "2.0", " 2 "])
def test_a_grade_is_the_same_however_the_judge_writes_it(grade: Any) -> None:
    assert JudgeByPrompt({"umbrela": {"M": 3, "T": 3, "O": grade}}).score("umbrela", EXAMPLE).values == (2,)


@pytest.mark.parametrize("measure", ["ragas_faithfulness", "ares_answer_relevance", "openeval_faithfulness"])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply('[[Yes]] {"statements": ["Fa', "truncated", 3, 9, calls=1), "failed: reply cut off at 9 tokens"),
        (Reply(None, "failed: HTTP 500", calls=1), "failed: HTTP 500"),
    ],
)
def test_a_reply_that_is_cut_off_or_lost_leaves_none(measure: str, reply: Reply, reason: str) -> None:
    judge = JudgeByPrompt({prompt.name: reply for prompt in MEASURES[measure].prompts})
    assert [score.status for score in judge.score(measure, EXAMPLE).scores] == [reason]


@pytest.mark.parametrize(
    ("measures", "changes", "reason", "questions"),
    [
        ("ragchecker_precision", {"answers": (".",)}, "no claims in the answer", 1),
        ("ragas_faithfulness", {"answers": (".",)}, "no statements in the answer", 1),
        ("ragas_answer_correctness", {"answers": (".",)}, "no statements in the answer", 2),
        ("ragas_context_recall", {"truth": "."}, "no sentences in the ground truth", 1),
        ("umbrela_precision_at_5 umbrela_ap_at_5 umbrela_ndcg_at_5", {}, "3 chunks, fewer than 5", 0),
        ("citation_precision citation_recall citation_f1", {"answers": ("[1].",)}, "no text in the answer", 0),
        ("citation_precision citation_f1", {"answers": ("One.",)}, "no citations in the answer", 0),
    ],
)
def test_an_example_with_nothing_to_judge_has_none(measures: str, changes: Any, reason: str, questions: int) -> None:
    for measure in measures.split():
        judge = JudgeByPrompt(LITERAL)
        scored = judge.score(measure, replace(EXAMPLE, **changes))
        assert (scored.values, scored.scores[0].status) == ((None,), f"failed: {reason}")
        assert len(judge.asked) == questions and scored.final
