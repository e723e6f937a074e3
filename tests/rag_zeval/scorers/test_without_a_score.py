"""Where measures give no score: replies that are not clear, and examples that lack something."""

from dataclasses import replace
from typing import Any

import pytest
from judge_by_prompt import JudgeByPrompt, example_of

from rag_zeval.literal_judge import LITERAL
from rag_zeval.models.language_model import Reply
from rag_zeval.scorers.registry import MEASURES

EXAMPLE = example_of("Fact 0 holds. Fact 9 holds [1].")  # two claims of the answer, four of the ground truth
SCORE = {"criteria": "so", "supporting_evidence": "so"}  # of TruLens, but for its number
NUGGETS = [f"n{number}" for number in range(31)]
VERDICT = "- Something. A reason. VERDICT: "


@pytest.mark.parametrize(
    ("measure", "prompt", "reply", "reason"),
    [
        ("ragchecker_precision", "ragchecker_check", ["Entailment"], "1 judgement, expected 2"),
        ("ragchecker_precision", "ragchecker_check", ["Entailment", "Yes"], "'Yes' is not one of Entailment, Neutral"),
        ("ragchecker_precision", "ragchecker_claims", [["a", "b"]], "2 judgements, expected 3"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}], "1 judgement, expected 2"),
        ("ragas_faithfulness", "ragas_verdicts", [{"verdict": 1}, {"verdict": 2}], "'2' is neither 1 nor 0"),
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
            ("umbrela", "umbrela", {"M": 2, "T": 2, "O": grade}, "is not one of 0, 1, 2, 3")
            for grade in (4, -1, 1.5, None, True, "high", [2], "")
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
        ("answered", "answered", {"answered": "maybe"}, "'maybe' is neither 1 nor 0"),
        ("ccrs_qr", "ccrs_qr", {"score": 101}, "'101' is not a number from 0 to 100"),
        ("ccrs_qr", "ccrs_qr", {"score": "eighty"}, "JSON of another shape"),
        ("ccrs_qr", "ccrs_qr", "10", "no JSON in the reply '10'"),  # might be the beginning of 100 that was cut off
        ("ccrs_ac", "ccrs_ac", {"score": -1}, "'-1' is not a number from 0 to 100"),  # nor is the exact match alone one
        ("is_correct", "is_correct", {"is_correct": "partially", "reasoning": "so"}, "'partially' is neither 1 nor 0"),
        ("is_correct", "is_correct", {"is_correct": True, "reasoning": " "}, "'' is not a text"),
    ],
)
def test_a_reply_that_is_not_clear_or_does_not_fit_the_question_leaves_none(
    measure: str, prompt: str, reply: Any, reason: str
) -> None:
    scored = JudgeByPrompt({**LITERAL, prompt: reply}).score(measure, EXAMPLE)
    assert scored.values == (None,) and scored.final
    assert scored.scores[0].status.startswith(f"failed: {prompt}: ") and reason in scored.scores[0].status


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
        ("umbrela_precision_at_5 umbrela_ap_at_5", {}, "3 chunks, fewer than 5", 0),
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
