"""Answers that are too long for the judge, by its card, are judged in windows; other rows are as they were."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judge_by_prompt import CheckerStub
from scripted_backend import ScriptedBackend

from rag_zeval.cases.case import Case, CaseSet
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges
from rag_zeval.evaluation.run import EvaluationRun, score
from rag_zeval.files import Row, read_jsonl
from rag_zeval.models.language_model import Reply, Request
from rag_zeval.report.embedded import embedded_rows
from rag_zeval.report.scores import ScoreTable
from rag_zeval.results import SPENT, read_judged
from rag_zeval.scoring.estimate import mock_reply, planned_calls
from rag_zeval.scoring.opening import Asking
from rag_zeval.scoring.spending import Spending

CARD = {"variant": "compact", "answer_sentences": 2}
FACTS = [f"Fact {number} is so." for number in range(8)]
CASES = [
    Case("short", "What?", {"a": FACTS[0], "b": FACTS[1]}, reference=FACTS[0]),
    Case(
        "long",
        "What?",
        {"a": " ".join(FACTS), "b": "", "c": FACTS[7]},
        reference=FACTS[7],
        unanswered={"b": "no answer"},
    ),
]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Row]]:
    """The rows of these cases by id, of a judge with this card; the same call resumes."""

    def judge(
        script: Any = mock_reply, card: Any = CARD, cases: Any = CASES, scorers: Any = ("rag_zeval",)
    ) -> dict[str, Row]:
        backend = ScriptedBackend(script, card=card)
        monkeypatch.setattr("rag_zeval.evaluation.metrics.open_backend", lambda *_, **__: backend)
        run = EvaluationRun(CaseSet(cases), {"short", "long"}, scorers, ["reference"], Judges("scripted"))
        with score(run, tmp_path / "o", None, Spending()):
            pass
        judge.calls = backend.calls  # type: ignore[attr-defined]
        return {row["case"]: row for row in read_jsonl(tmp_path / "o") if row["id"] != SPENT}

    return judge


def test_a_long_answer_has_one_score_and_all_its_claims_and_its_row_says_how(
    judge: Any, tmp_path: Path, capsys: Any
) -> None:
    long = judge()["long"]
    assert (long["scores"], long["statuses"]) == ([1 / 8, None, 1], ["ok", "failed: no answer", "ok"])
    assert long["calls"] == 5 and [len(windows) for windows in long["parts"]["windows"]] == [4, 0, 1]
    assert long["identity"].endswith(" in plain windows of 2, then pieces of 150 words")
    told = "judged in windows: 1 of 2 cases, because an answer is longer than the judge can judge at once, 2 sentences"
    assert told in capsys.readouterr().err
    claims = {one.system: one.claims for one in read_judged(tmp_path / "o") if one.case == "long"}
    assert [claim["claim"] for claim in claims["a"] or ()] == [fact[:-1] for fact in FACTS] and claims["b"] is None
    (shown,) = json.loads("".join(embedded_rows([long], ScoreTable([long]))))["rows"]
    assert shown["cost"].startswith("answers judged in 5 windows · calls: 5")
    judge()
    assert judge.calls == 0


def test_the_claims_of_an_answer_are_checked_if_another_could_not_be_read(
    judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads_no_fact_0(request: Request) -> Reply | str:
        return "sorry" if FACTS[0] in request.messages[0]["content"] else mock_reply(request)

    checker = CheckerStub(lambda premise, claim: float(claim in premise))
    monkeypatch.setattr("rag_zeval.evaluation.metrics.open_checker", lambda *_: checker)
    judge(reads_no_fact_0, cases=CASES[1:], scorers=["rag_zeval", "checked_claims"])
    found = {(one.metric, one.system): one.score for one in read_judged(tmp_path / "o")}
    for metric in ("rag_zeval", "checked_claims"):
        assert [found[metric, system] for system in "abc"] == [None, None, 1.0]


def test_rows_that_were_judged_without_a_limit_are_kept(judge: Any) -> None:
    whole = judge(card={"variant": "compact"})
    assert judge() == whole and judge.calls == 0


def test_an_answer_that_was_not_read_is_tried_again_though_another_has_a_score(judge: Any, capsys: Any) -> None:
    def not_of_fact_3(request: Request) -> Reply | str:
        return "Oh no." if FACTS[3] in request.messages[0]["content"] else mock_reply(request)

    assert judge(not_of_fact_3)["long"]["scores"] == [None, None, 1]
    capsys.readouterr()
    assert judge()["long"]["scores"] == [1 / 8, None, 1] and "retrying 1 failed rows" in capsys.readouterr().err


def test_a_run_that_was_stopped_within_an_answer_resumes(judge: Any) -> None:
    def stops(request: Request) -> Reply:
        if FACTS[7] in request.messages[0]["content"].partition('"candidates"')[2]:
            raise InputError("the power is out")
        return mock_reply(request)

    with pytest.raises(InputError, match="the power is out"):
        judge(stops)
    assert judge()["long"]["scores"] == [1 / 8, None, 1] and judge.calls == 5


def test_a_row_in_windows_is_kept_when_another_reference_needs_pieces(
    judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(cases=CASES[1:])
    monkeypatch.setattr("rag_zeval.scorers.rag_zeval.RagZeval.fits", lambda _, example: example.id == "long")
    assert judge()["long"]["scores"] == [1 / 8, None, 1] and judge.calls == 1


def test_the_plan_knows_the_windows(judge: Any) -> None:
    judge()
    examples = [CaseSet(CASES).example(at, "reference") for at in range(2)]
    planned, unlimited = (
        next(planned_calls([("rag_zeval", examples)], Asking(), 2, card)) for card in (CARD, {"variant": "compact"})
    )
    assert (planned.calls, unlimited.calls) == (judge.calls, 2) == (6, 2)
    assert planned.parts and planned.parts.in_windows == 1
