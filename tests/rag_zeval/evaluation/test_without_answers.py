"""Cases that lack an answer, or what to judge it by: no score, no call, no second try; and what rows keep of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.cases.case import Case, CaseSet
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges, check_needs
from rag_zeval.evaluation.run import EvaluationRun, score
from rag_zeval.files import Row, read_jsonl
from rag_zeval.literal_judge import literal_reply, read_prompt
from rag_zeval.results import SPENT, over_trials, read_judged
from rag_zeval.scorers.registry import NEEDS, SCORERS
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import summarize
from rag_zeval.scripted_judge import ScriptedJudge

BOTH = "Ann has cats. Bob has dogs."
CONTEXTS = ("Ann has cats.", "Eve has owls.")
SLOW = "no answer: HTTP 429: slow down"
BY_ANSWER = ["rag_zeval", "rouge_l", "bleu", "word_rule", "is_correct", "ragas_faithfulness", "answered"]


def case(id_: str, *answers: str, **more: Any) -> Case:
    return Case(
        id_, f"Who has what, {id_}?", dict(zip("abc", answers, strict=False)), CONTEXTS, **{"truth": BOTH, **more}
    )


@pytest.fixture
def letter(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies = literal_reply
    return scripted_judge


@pytest.fixture
def judge(letter: ScriptedJudge, tmp_path: Path) -> Callable[..., dict[tuple[str, str], Row]]:
    """The rows of these cases by metric and case; the same call goes on with the file that is there."""

    def judge(cases: list[Case], scorers: list[str], *sources: str, file: str = "o") -> dict[tuple[str, str], Row]:
        case_set = CaseSet(cases)
        ids = {one.id for one in cases}
        run = EvaluationRun(case_set, ids, scorers, sources or ["contexts"], Judges(letter.spec()))
        with score(run, tmp_path / file, tmp_path / "c", Spending()):
            pass
        return {(row["metric"], row["case"]): row for row in read_jsonl(tmp_path / file) if row["id"] != SPENT}

    return judge


def test_an_answer_that_is_none_costs_nothing_and_the_others_are_judged_together(judge: Any, letter: Any) -> None:
    cases = [
        case("some", BOTH, "", "Ann has cats.", unanswered={"b": SLOW}),
        case("blank", "\u200b", " ", "Ann has cats.", unanswered={"a": "no answer", "b": "no answer"}),
        case("none", "", "", unanswered={"a": "no answer", "b": SLOW}),
    ]
    rows = judge(cases, BY_ANSWER)
    for metric in {metric for metric, _ in rows}:
        some, blank, none = (rows[metric, one.id] for one in cases)
        assert some["systems"] == ["a", "b", "c"] and some["answers"] == [BOTH, "", "Ann has cats."]
        assert (some["scores"][1], some["statuses"]) == (None, ["ok", f"failed: {SLOW}", "ok"])
        assert None not in (some["scores"][0], some["scores"][2])
        assert blank["statuses"] == ["failed: no answer", "failed: no answer", "ok"]
        assert (none["scores"], none["statuses"]) == ([None, None], ["failed: no answer", f"failed: {SLOW}"])
        assert (none["calls"], none["trajectory"]) == (0, None)
    shown = [read_prompt(asked["messages"][0]["content"]) for asked in letter.requests]
    asked = [inputs["candidates"] for prompt, inputs in shown if "candidates" in inputs]
    assert sorted(map(len, asked)) == [1, 2]  # jointly, and without those
    (first, missing, third) = rows["rag_zeval@contexts", "some"]["trajectory"]
    assert missing is None and len(first["atomic_claims"]) == 2 and len(third["atomic_claims"]) == 1
    assert rows["rag_zeval@contexts", "some"]["scores"] == [0.5, None, 1.0]


def test_what_can_have_no_score_is_not_tried_again(judge: Any, letter: Any, tmp_path: Path, capsys: Any) -> None:
    cases = [
        case("some", BOTH, "", unanswered={"b": SLOW}),
        case("none", "", ""),
        case("no truth", BOTH, BOTH, truth="\u200b"),
        replace(case("no contexts", BOTH, BOTH), contexts=(" ",)),
    ]
    judge(cases, BY_ANSWER, "contexts", "truth")
    asked, kept = len(letter.requests), (tmp_path / "o").read_bytes()
    judge(cases, BY_ANSWER, "contexts", "truth")
    assert (len(letter.requests), (tmp_path / "o").read_bytes()) == (asked, kept)
    assert "retrying" not in capsys.readouterr().err


def test_a_failed_answer_beside_one_that_is_none_is_tried_again(judge: Any, letter: Any, capsys: Any) -> None:
    cases = [case("some", BOTH, "", unanswered={"b": SLOW})]
    letter.replies = "I cannot judge this."
    assert judge(cases, ["rag_zeval", "is_correct"])["is_correct", "some"]["scores"] == [None, None]
    letter.replies = literal_reply
    rows = judge(cases, ["rag_zeval", "is_correct"])
    assert "retrying 2 failed rows" in capsys.readouterr().err
    found = [rows[metric, "some"]["statuses"] for metric in ("rag_zeval@contexts", "is_correct")]
    assert found == [["ok", f"failed: {SLOW}"]] * 2


@pytest.mark.parametrize(
    "changed",
    [
        case("x", BOTH, "Bob has dogs."),  # the answer has come
        case("x", BOTH, "", unanswered={"b": "no answer: timeout"}),
        case("x", BOTH, "", unanswered={"b": SLOW}, truth="Another."),
        replace(case("x", BOTH, "", unanswered={"b": SLOW}), contexts=("Another.",)),
    ],
)
def test_another_input_is_noticed(judge: Any, changed: Case) -> None:
    judge([case("x", BOTH, "", unanswered={"b": SLOW})], ["rouge_l"])
    with pytest.raises(InputError, match=r"row 'x\|rouge_l@contexts' was made with a different input_sha256"):
        judge([changed], ["rouge_l"])


def test_summary_counts_them_as_answers_without_a_score(judge: Any) -> None:
    rows = judge([case("some", BOTH, "", unanswered={"b": SLOW}), case("more", BOTH, BOTH)], ["rouge_l"])
    first, second = summarize(rows.values()).columns
    assert (first.coverage, second.coverage, second.scored) == (1.0, 0.5, 1)


def test_a_row_keeps_what_its_score_was_made_from_by_name(judge: Any, tmp_path: Path) -> None:
    scorers = ["rag_zeval", "is_correct", "umbrela", "ragas_context_recall", "answered", "ccrs_ac"]
    rows = judge([case("x", BOTH)], scorers, "contexts", "truth")
    kept = {
        metric: {name: row[name] for name in ("reference", "reference_kind", "chunks") if name in row}
        for (metric, _), row in rows.items()
    }
    contexts, truth = "\n\n".join(CONTEXTS), {"reference": BOTH, "reference_kind": "truth"}
    assert kept == {
        "rag_zeval@contexts": {"reference": contexts, "reference_kind": "contexts"},
        "rag_zeval@truth": truth,
        "is_correct": truth,
        "umbrela": {"reference": contexts, "reference_kind": "contexts"},
        "ragas_context_recall": {**truth, "chunks": list(CONTEXTS)},
        "answered": {"reference": "", "reference_kind": None},
        "ccrs_ac": {**truth, "chunks": list(CONTEXTS)},
    }
    judged = {one.metric: one for one in read_judged(tmp_path / "o")}
    assert judged == {one.metric: one for one in over_trials(rows.values())}
    assert judged["is_correct"].sources == [("ground truth", BOTH)] and judged["answered"].sources == []
    assert judged["ragas_context_recall"].chunks == CONTEXTS
    assert judged["ragas_context_recall"].sources == [("ground truth", BOTH), ("retrieved contexts", contexts)]
    own = judge([case("x", BOTH, reference="Mine.", truth=None)], ["rouge_l", "is_correct"], "reference", file="own")
    assert {(row["reference"], row["reference_kind"]) for row in own.values()} == {("Mine.", "reference")}


@pytest.mark.parametrize("name", SCORERS)
def test_what_no_case_has_is_said_before_anything_is_asked(name: str) -> None:
    check_needs([name], CaseSet([case("1", "a"), case("2", "")]))
    needs = [need for need in NEEDS[name] if need != "answer"]
    bare = [replace(case(id_, "a"), truth=blank, contexts=(blank,) * 2) for id_, blank in (("1", ""), ("2", "\u200b"))]
    if needs:
        with pytest.raises(
            InputError, match=rf"^{name} needs the .*(ground truth|contexts|reference), which no case has"
        ):
            check_needs([name], CaseSet(bare))
    if "answer" in NEEDS[name]:
        with pytest.raises(InputError, match=f"^{name} needs the answer, which no case has$"):
            check_needs([name], CaseSet([case("1", ""), case("2", "\u200b"), case("3", "", unanswered={"a": SLOW})]))
    if {*needs} >= {"truth", "chunks"}:
        apart = [case("1", "a", truth=None), replace(case("2", "a"), contexts=())]
        with pytest.raises(InputError, match=r"needs the .*ground truth and the retrieved contexts, which no case has"):
            check_needs([name], CaseSet(apart))


def test_a_blank_source_is_none() -> None:
    bare = CaseSet([replace(case("1", "a"), contexts=("\u200b", " "), truth=" ", reference="\ufeff")])
    with pytest.raises(InputError, match="no case has a reference, retrieved contexts or ground truth to judge by"):
        bare.sources(None)
