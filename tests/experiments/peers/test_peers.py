"""The comparison with other packages: what its endpoint counts and breaks, a run that is killed, the tables."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.peers.__main__ import FAULTY, KILLED, SOUND, TWICE, answers, measure, tables
from experiments.peers.agreement import compare
from experiments.peers.endpoint import BREAKAGES, CountingJudge, breakage
from experiments.peers.runs import PACKAGES, SCORES, Package, run
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.results import SPENT
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.scoring.opening import Asking, Models, open_scorer

SCRIPT = """
import json, sys, urllib.request
rows, url, scores = json.load(open(sys.argv[1])), sys.argv[2], {}
for row in rows:
    prompt = row["prompt"]
    body = {"model": "judge", "messages": [{"role": "user", "content": prompt}]}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode())
    scores[row["id"]] = len(urllib.request.urlopen(request).read()) / 1000
json.dump(scores, open(sys.argv[3], "w"))
"""


class FakePackage(Package):
    """A package that asks one row after the other and writes its scores at the end."""

    python = Path(sys.executable)

    @property
    def made_of(self) -> list[str]:
        return [self.parity or ""]

    def command(self, rows: Path, url: str) -> list[str]:
        return [sys.executable, "-c", SCRIPT, str(rows), url, SCORES]


def rows_file(folder: Path, *prompts: str) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps([{"id": str(at), "prompt": prompt} for at, prompt in enumerate(prompts)]))
    return path


FAKE = FakePackage("Fake", "length", "import json", "fake")
ASKED = "\nContradictions:\n{}\n"  # a prompt of DeepEval that gets the same reply whatever it holds


def test_a_killed_run_is_started_again_and_what_it_pays_twice_is_counted(tmp_path: Path) -> None:
    rows = rows_file(tmp_path, *map(ASKED.format, range(6)))
    whole = run(FAKE, rows, tmp_path / "whole")
    killed = run(FAKE, rows, tmp_path / "killed", kill_after=3)
    assert (whole.calls, whole.paid_twice, whole.most_open, whole.ended) == (6, 0, 1, "")
    assert killed.calls > 6 and 2 <= killed.paid_twice == killed.calls - 6
    assert killed.scores == whole.scores and len(whole.scores) == 6
    assert whole.memory > 1 and whole.seconds > 6 * 0.05


def test_a_run_that_fails_has_no_scores_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / SCORES).write_text('{"0": 1.0}')  # of a run that was interrupted
    failed = run(FAKE, rows_file(tmp_path, *map(ASKED.format, range(3))), tmp_path / "run", broken=1.0)
    assert failed.scores == {} and "HTTPError" in failed.ended


def test_a_run_of_other_answers_or_of_another_version_is_not_taken_for_this_one(tmp_path: Path) -> None:
    rows, version = rows_file(tmp_path, ASKED.format(1)), FakePackage("Fake", "length", "import json", "fake")
    with RowWriter(tmp_path / "runs.jsonl") as done:
        measure([version], rows, tmp_path, done)
        assert len(done.done) == 3
        measure([version], rows, tmp_path, done)  # nothing is left to do
        newer = FakePackage("Fake", "length", "import json", "newer")
        with pytest.raises(InputError, match=r"row 'Fake sound' is of other answers, another version"):
            measure([newer], rows, tmp_path, done)
        with pytest.raises(InputError, match="is of other answers"):
            measure([version], rows_file(tmp_path, ASKED.format(2)), tmp_path, done)


def test_an_unknown_prompt_ends_the_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a prompt that the judge does not know.*Tell me"):
        run(FAKE, rows_file(tmp_path, "Tell me a story."), tmp_path / "run")


def test_breakages_follow_from_the_prompt_and_how_often_it_was_sent() -> None:
    drawn = [breakage(str(at), 1, 0.05) for at in range(4_000)]
    assert 140 < sum(fault is not None for fault in drawn) < 260  # 200 expected
    assert {*drawn} == {None, *BREAKAGES}
    assert drawn == [breakage(str(at), 1, 0.05) for at in range(4_000)]
    assert drawn != [breakage(str(at), 2, 0.05) for at in range(4_000)]


def outcome(**changes: Any) -> dict[str, Any]:
    whole = {"calls": 4, "tokens": 100, "paid_twice": 0, "seconds": 1.0, "cpu": 0.5, "memory": 50.0, "most_open": 8}
    return {**whole, "scores": {"a": 1.0, "b": 0.5}, "ended": "", "import_seconds": 0.1, **changes}


def test_the_tables_tell_lost_rows_from_other_scores() -> None:
    package = PACKAGES[0]
    outcomes = {
        f"{package.name} {SOUND}": outcome(),
        f"{package.name} {FAULTY}": outcome(scores={"a": None, "b": 0.25}),
        f"{package.name} {TWICE}": outcome(calls=5),
        f"{package.name} {KILLED}": outcome(scores={}, paid_twice=2, ended="KeyError | a"),
    }
    _, first, _, second, _, third = (table.splitlines()[2:] for table in tables([package], outcomes, 2))
    assert first == ["| RAG-Zeval | 4 | 100 | 1 | 0 | 2 | 8 | 0 | 50 | 0.1 | faithfulness |"]
    assert second == [
        "| RAG-Zeval | 4 | 100 | 1 | 0 | 1 | 1 | 1 |  |",
        "| RAG-Zeval, run twice | 5 | 100 | 1 | 0 | 2 | 0 | 0 |  |",
    ]
    assert third == ["| RAG-Zeval | 4 | 100 | 1 | 2 | 0 | 2 | 0 | KeyError / a |"]


def test_the_answers_are_as_many_as_asked_for_and_all_different() -> None:
    rows = answers(10)
    assert len(rows) == len({row["id"] for row in rows}) == len({row["answer"] for row in rows}) == 10
    assert all(len(row["contexts"]) == 5 for row in rows)


def scored(*values: float | None) -> Scored:
    return Scored("", tuple(Score(value, "ok" if value is not None else "failed: no claims") for value in values))


def test_agreement_is_of_the_differences_and_names_what_one_side_lacks() -> None:
    ours = {str(at): scored(0.0, at / 10) for at in range(8)} | {"8": scored(None, 1.0)}
    theirs = {
        id_: replace(one, scores=tuple(Score((s.value or 0.0) / 2) for s in one.scores)) for id_, one in ours.items()
    }
    ours[SPENT] = Scored(SPENT, ())  # the row that keeps the costs of a retried one
    line, reasons = compare("a_scorer", ours, theirs)
    assert line[:2] == ["a_scorer", "8"] and line[2].startswith("1.000 [")
    assert line[3:] == ["17", "9", "1"]  # the eight zeros and that of at = 0 are equal
    assert reasons == [["a_scorer", "failed: no claims", "0.000", "1"]]


def test_every_scorer_that_follows_an_original_can_be_asked() -> None:
    judge = CountingJudge()
    judge.delay = 0.0
    example = Example("1", "Who is Ann?", "Ann was born in Bonn.", ("Ann was born in Bonn.",), "Ann was born in Bonn.")
    models = Models(OpenAIBackend("judge", judge.url))
    try:
        for name in ("ragas_faithfulness", "ragchecker_precision", "trulens_groundedness", "umbrela", "nuggets_all"):
            assert name in MEASURES
            [one] = open_scorer(name, models, Asking()).score([replace(example, chunks=(example.reference,))])
            assert one.scores[0].value is not None, (name, one)
    finally:
        judge.close()
    assert not judge.unknown
