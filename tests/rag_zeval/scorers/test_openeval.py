"""OpenEval by a judge in this process: its lists, its verdict lines, its formulas."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import list_items
from rag_zeval.scorers.openeval import read_verdicts

ANSWER, TRUTH = "Ada wrote it in 1843. It is long.", "Ada wrote it."
EXAMPLE = Example("x", "Who wrote it?", "r", (ANSWER,), truth=TRUTH, chunks=("Ada wrote it.", "In 1843."))
OURS, THEIRS = ["Ada wrote it.", "It was written in 1843.", "It is long."], ["Ada wrote it.", "It is good."]


def statements(inputs: dict[str, Any]) -> str:
    found = THEIRS if inputs["sentences"] == [TRUTH] else OURS
    return "Here they are:\n" + "\n".join(f"- {one}" for one in found)


def verdicts(*labels: str) -> str:
    return "\n".join(f"- Something. A reason. VERDICT: {label}" for label in labels)


@pytest.mark.parametrize(
    ("labels", "by_recall", "f1"),
    [
        ("TP FP FP FN", 1 / 2, 2 / 5),
        ("TP TP FP", 1, 4 / 5),
        ("FP FP FP FN FN", 0, 0),
        ("TP TP TP FN FN", 3 / 5, 6 / 8),
        ("FP FP FP", None, 0),  # nothing is missing, nothing is right: 0 / 0
        ("TP TP FN", None, None),
        ("TP TP TP FN FN FN", None, None),
    ],
)
def test_correctness_compares_the_statements_of_both(labels: str, by_recall: float | None, f1: float | None) -> None:
    for measure, value in (("openeval_correctness", by_recall), ("openeval_correctness_f1", f1)):
        replies = {"openeval_statements": statements, "openeval_correctness": verdicts(*labels.split())}
        judge = JudgeByPrompt(replies)
        (score,) = judge.score(measure, EXAMPLE).scores
        assert score.value == (None if value is None else pytest.approx(value))
        assert score.status.startswith("failed: " if value is None else "ok")
        assert [prompt for prompt, _ in judge.rounds[0]] == ["openeval_statements"] * 2 and len(judge.rounds) == 2
        assert judge.rounds[1][0][1] == {"question": "Who wrote it?", "answer": OURS, "ground_truth": THEIRS}
        assert judge.temperatures == {1}


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("VERDICT: PASSED", "PASSED"),
        ("- It holds. VERDICT: FAILED, as it is not there", "FAILED"),
        ("VERDICT: **PASSED**", "PASSED"),
        ("VERDICT: it is PASSED", "PASSED"),
        ("VERDICT: NOT PASSED", None),
        ("VERDICT: PASSED/FAILED", None),
        ("VERDICT: PASSED VERDICT: FAILED", None),
        ("VERDICT: PASSEDLY", None),
        ("VERDICT: UNPASSED", None),
        ("VERDICT: PASSED or not", None),
        ("The text says that the VERDICT: PASSED stands there.", None),
    ],
)
def test_a_verdict_line_has_one_label_or_none_is_read(line: str, label: str | None) -> None:
    if label is None:
        with pytest.raises(Unreadable):
            read_verdicts(line, ("PASSED", "FAILED"))
    else:
        assert read_verdicts(line, ("PASSED", "FAILED")) == [label]


LINE = st.text("abc -.:", min_size=1, max_size=12).map(str.strip).filter(lambda line: line[:1] in [*"abc"])


@given(
    st.lists(
        st.tuples(LINE, st.sampled_from(["TP", "FP", "FN"])), min_size=1, max_size=6, unique_by=lambda line: line[0]
    ),
    LINE,
)
def test_as_many_statements_and_verdicts_are_read_as_were_written(lines: list[tuple[str, str]], prose: str) -> None:
    items = "\n".join(f"- {statement}" for statement, _ in lines)
    assert list_items(f"{prose}\n\n{items}\n{prose}") == [statement for statement, _ in lines]
    labelled = "\n".join(f"- {statement} VERDICT: {label}" for statement, label in lines)
    assert read_verdicts(f"{prose}:\n{labelled}", ("TP", "FP", "FN")) == [label for _, label in lines]


@pytest.mark.parametrize(
    "text",
    [
        "The answer says - It is so.\n- It is not. I cannot judge this.",
        "- It is so.\nWait:\n- It is not.",
        "- It is so.\n- ...",
        "- It is so.\n- and so on",
        "- It is so.\n...",
        "- It is so.\n- It is so.",
        "It is so.",
    ],
)
def test_a_list_that_is_quoted_parted_or_elided_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        list_items(text)
