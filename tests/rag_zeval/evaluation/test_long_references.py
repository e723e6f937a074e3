"""A reference that exceeds the judge's window is judged in pieces; shorter ones give the rows that they gave before."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_backend import ScriptedBackend

from rag_zeval.cases.case import Case, CaseSet
from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import Judges
from rag_zeval.evaluation.run import EvaluationRun, score
from rag_zeval.files import Row, read_jsonl
from rag_zeval.models.language_model import Reply, Request
from rag_zeval.report.embedded import embedded_rows
from rag_zeval.report.scores import ScoreTable
from rag_zeval.results import SPENT, over_trials, read_judged
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scoring.estimate import mock_reply
from rag_zeval.scoring.spending import Spending

NANO = Path(__file__).parents[3] / "checkpoints" / "nano-judge"
WINDOW = 2000  # words: with the instructions and a quarter for the reply, some 900 are left
SENTENCES = [f"Fact {number} is so." for number in range(700)]
LONG = " ".join(SENTENCES)
ANSWER = "Fact 1 is so. Fact 2 is so. Fact 699 is so. Fact 1000 is so."


def case(id_: str, reference: str, *answers: str, **more: Any) -> Case:
    return Case(id_, f"What of {id_}?", dict(zip("abc", answers, strict=False)), reference=reference, **more)


CASES = [
    case("short", "Fact 1 is so.", "Fact 1 is so.", "Fact 2 is so."),
    case("long", LONG, ANSWER, "", "Fact 699 is so.", unanswered={"b": "no answer"}),
    case("none", " ", "Fact 1 is so."),
]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Row]]:
    """The rows of these cases by id, of a judge with this window; the same call resumes."""

    def judge(
        cases: list[Case], window: int | None, script: Any = mock_reply, scorers: Any = ("rag_zeval",), file: str = "o"
    ) -> dict[str, Row]:
        backend = ScriptedBackend(script, max_context=window)
        monkeypatch.setattr("rag_zeval.evaluation.metrics.open_backend", lambda *_, **__: backend)
        run = EvaluationRun(CaseSet(cases), {one.id for one in cases}, scorers, ["reference"], Judges("scripted"))
        with score(run, tmp_path / file, None, Spending()):
            pass
        judge.calls = backend.calls  # type: ignore[attr-defined]
        return {row["id"]: row for row in read_jsonl(tmp_path / file) if row["id"] != SPENT}

    return judge


def test_a_long_reference_gets_a_score_and_the_claims_that_it_was_made_of(
    judge: Any, tmp_path: Path, capsys: Any
) -> None:
    rows = judge(CASES, WINDOW)
    long = rows["long|rag_zeval"]
    assert long["scores"] == [0.5, None, 1.0] and long["statuses"] == ["ok", "failed: no answer", "ok"]
    assert long["calls"] == len(long["parts"]["pieces"]) == 3 and judge.calls == 4
    assert long["identity"] == rows["short|rag_zeval"]["identity"] + " in pieces" and long["reference"] == LONG
    told = "judged in pieces: 1 of 3 cases, because their reference exceeds the judge's window (rag_zeval)"
    assert told in capsys.readouterr().err
    first, missing, third = (one.claims for one in read_judged(tmp_path / "o") if one.case == "long")
    assert missing is None and [claim["is_supported"] for claim in first or ()] == [True, True, False, False]
    assert [claim["grounding_evidence"] for claim in third or ()] == [["Fact 699 is so"]]
    assert [one.score for one in over_trials([long])] == [0.5, None, 1.0]
    (shown,) = json.loads("".join(embedded_rows([long], ScoreTable([long]))))["rows"]
    assert shown["cost"].startswith("reference judged in 3 pieces · calls: 3")
    assert shown["claims"][2][0]["quotes"][0]["at"][0] == LONG.index("Fact 699")


def test_rows_of_short_references_do_not_change_and_their_file_resumes(judge: Any, tmp_path: Path) -> None:
    """Also rows that were judged whole: by a larger window here, by an earlier version there."""
    whole = judge(CASES, None, file="whole")
    assert [whole["long|rag_zeval"]["scores"][0], judge.calls] == [0.75, 2]
    rows = judge(CASES, WINDOW)
    for id_ in ("short|rag_zeval", "none|rag_zeval"):
        assert json.dumps(rows[id_]) == json.dumps(whole[id_])
    kept = (tmp_path / "whole").read_bytes()
    judge(CASES, WINDOW, file="whole")
    assert judge.calls == 0 and (tmp_path / "whole").read_bytes() == kept


def test_a_row_that_was_refused_before_is_judged_in_pieces(
    judge: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with monkeypatch.context() as before:
        before.setattr(RagZeval, "fits", lambda *_: True)
        refused = judge(CASES, WINDOW)["long|rag_zeval"]
    assert refused["status"].startswith("failed: reference needs 2800 tokens") and refused["scores"][0] is None
    assert judge(CASES, WINDOW)["long|rag_zeval"]["scores"] == [0.5, None, 1.0] and judge.calls == 3
    assert "retrying 1 failed rows" in capsys.readouterr().err
    judge(CASES, WINDOW)
    assert judge.calls == 0


def test_a_run_that_was_stopped_within_a_reference_resumes(judge: Any, tmp_path: Path) -> None:
    def stops(request: Request) -> Reply:
        if "Fact 699 is so. Fact 700" in request.messages[0]["content"]:
            raise InputError("the power is out")
        return mock_reply(request)

    cases = [*CASES, case("longer", f"{LONG} Fact 700 is so.", "Fact 700 is so.")]
    whole = judge(cases, WINDOW, file="undisturbed")
    with pytest.raises(InputError, match="the power is out"):
        judge(cases, WINDOW, stops)
    assert "longer|rag_zeval" not in {row["id"] for row in read_jsonl(tmp_path / "o")}
    assert judge(cases, WINDOW) == whole


def test_a_piece_without_a_reply_leaves_no_score_and_is_tried_again(judge: Any) -> None:
    def only_the_first(request: Request) -> Reply | str:
        return mock_reply(request) if "Fact 3 is so." in request.messages[0]["content"] else "sorry"

    failed = judge(CASES[1:2], WINDOW, only_the_first)["long|rag_zeval"]
    assert failed["scores"] == [None] * 3 and failed["trajectory"] is None and failed["status"].startswith("failed: ")
    assert judge(CASES[1:2], WINDOW)["long|rag_zeval"]["scores"] == [0.5, None, 1.0]


def test_other_scorers_of_a_reference_are_asked_in_pieces_and_those_of_chunks_are_not(judge: Any) -> None:
    chunks = tuple(SENTENCES)
    cases = [case("long", LONG, ANSWER, contexts=chunks)]
    rows = judge(cases, WINDOW, scorers=["trulens_groundedness", "answered", "bleu", "nuggets_all"])
    cut = {row["metric"] for row in rows.values() if "pieces" in row["parts"]}
    assert (
        cut
        == {"trulens_groundedness"}
        == {row["metric"] for row in rows.values() if row["identity"].endswith("in pieces")}
    )
    assert len(rows["long|trulens_groundedness"]["parts"]["answers"]) == 1


def test_a_checker_gets_the_claims_that_the_score_was_made_of(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Checker:
        identity = "checker"

        def fits(self, pair: tuple[str, str]) -> bool:
            return True

        def score(self, pairs: list[tuple[str, str]]) -> list[float | None]:
            return [float(claim in document) for document, claim in pairs]

    monkeypatch.setattr("rag_zeval.evaluation.metrics.open_checker", lambda *_: Checker())
    rows = judge(CASES, WINDOW, scorers=["rag_zeval", "checked_claims"])
    assert rows["long|checked_claims"]["scores"] == [0.75, None, 1.0]  # two claims by one piece, one by another


def test_one_sentence_that_is_too_long_alone_fails_as_before(judge: Any) -> None:
    (row,) = judge([case("long", "word " * WINDOW, "A word.")], WINDOW).values()
    assert row["status"].startswith(f"failed: reference needs {WINDOW} tokens") and judge.calls == 0
    assert "pieces" not in row["parts"] and not row["identity"].endswith("in pieces")


def test_the_command_judges_a_long_reference_by_a_local_model(run: Any, tmp_path: Path) -> None:
    """The included nano judge: what it thinks of such texts means nothing, but it reads all of them."""
    shutil.copytree(NANO, tmp_path / "judge")
    facts = [f"Room {number} of the museum opens at nine." for number in range(90)]
    rows = [
        {"id": id_, "question": "When?", "reference": reference, "answers": ["Room 3 opens at nine."]}
        for id_, reference in (("short", facts[3]), ("long", " ".join(facts)))
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["evaluate", "in.jsonl", "--model", "judge", "--max-tokens", 60, "--temperature", 0]
    told = "judged in pieces: 1 of 2 cases"
    planned = run(*words, "--dry-run")
    assert planned.returncode == 0 and told in planned.stdout, planned.stderr
    (line,) = [line for line in planned.stdout.splitlines() if "rag_zeval" in line and "│" in line]
    done = run(*words, "--out", "o", "--html", "o.html")
    assert told in done.stderr, done.stderr
    found = {row["case"]: row for row in read_jsonl(tmp_path / "o")}
    pieces = found["long"]["parts"]["pieces"]
    assert len(pieces) > 1 and found["long"]["calls"] == len(pieces)
    assert int(line.split("│")[3]) == found["short"]["calls"] + found["long"]["calls"]
    assert "window" not in found["long"]["status"]
    kept = (tmp_path / "o").read_text().splitlines(keepends=True)
    (tmp_path / "o").write_text("".join(line if '"case": "short"' in line else line[:100] for line in kept))  # a kill
    run(*words, "--out", "o")
    again = {row["case"]: row for row in read_jsonl(tmp_path / "o") if row["id"] != SPENT}
    for row in (*found.values(), *again.values()):
        del row["seconds"]
    assert again == found
