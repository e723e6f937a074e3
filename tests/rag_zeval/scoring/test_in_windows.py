"""Answers that are too long for a judge are judged in windows of sentences, and nothing of them is left out."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scripted_backend import ScriptedBackend

from rag_zeval import progress
from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import read_prompt
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.progress import Progress
from rag_zeval.rows import RowWriter
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.estimate import mock_reply
from rag_zeval.scoring.in_pieces import InPieces
from rag_zeval.scoring.in_windows import InWindows, answer_sentences, plan_parts
from rag_zeval.scoring.row_loop import Work, score_rows
from rag_zeval.scoring.spending import Spending

FACTS = [f"Fact {number} is so." for number in range(20)]
ANSWERS = st.lists(
    st.tuples(st.lists(st.sampled_from(FACTS), min_size=1, unique=True), st.sampled_from([" ", "\n", " \n\n"])),
    min_size=1,
    max_size=3,
)


def example(answers: list[str], id_: str = "x", reference: str = " ".join(FACTS[::2])) -> Example:
    return Example(id_, "What is so?", reference, tuple(answers))


def rag_zeval(script: Callable[[Request], str | Reply] = mock_reply, **about: Any) -> RagZeval:
    """Of the rule-based judge, which decides each sentence by its text, or of another one."""
    return RagZeval(ScriptedBackend(script, **about), None, Sampling())


def verdicts(row: Scored) -> list[Any]:
    """Of each answer, the claims with their verdicts; None if it was not read."""
    return [
        candidate and [(claim["claim"], claim["is_supported"]) for claim in candidate["atomic_claims"]]
        for candidate in row.parts["trajectory"] or [None] * len(row.scores)
    ]


def shown(request: Request) -> list[str]:
    """The answers in a prompt."""
    return list(read_prompt(request.messages[0]["content"])[1]["candidates"].values())


def loses_itself(most: int) -> Callable[[Request], str | Reply]:
    """A judge that is only right about so many sentences in one prompt."""

    def reply(request: Request) -> str | Reply:
        asked = shown(request)
        return mock_reply(request) if sum(len(answer_sentences(one)) for one in asked) <= most else "I am lost."

    return reply


@given(st.lists(ANSWERS, min_size=1, max_size=3), st.integers(1, 8), st.integers(1, 30))
def test_claims_do_not_depend_on_the_windows_nor_on_what_fails_at_first(texts: Any, limit: int, most: int) -> None:
    examples = [example([mark.join(facts) for facts, mark in of], f"{at}") for at, of in enumerate(texts)]
    whole = {row.id: row for row in rag_zeval().score(examples)}
    scorer, shares = InWindows(rag_zeval(loses_itself(most)), limit), list[tuple[str, float]]()
    scorer.part_done = lambda id_, share: shares.append((id_, share))
    rows = list(scorer.score(examples))
    assert len(rows) == len(examples)
    assert {id_ for id_, _ in shares} <= {row.id for row in rows} and all(0 < share < 1 for _, share in shares)
    for row in rows:
        assert (row.values, verdicts(row)) == (whole[row.id].values, verdicts(whole[row.id]))
        assert [one["id"] for one in row.parts["trajectory"]] == [
            one["id"] for one in whole[row.id].parts["trajectory"]
        ]
        windows = row.parts.get("windows", ())
        for answer, of_answer in zip(examples[int(row.id)].answers, windows, strict=bool(windows)):
            first, last = zip(*(window["sentences"] for window in of_answer), strict=True)
            assert [1, *(end + 1 for end in last)] == [*first, len(answer_sentences(answer)) + 1]
            assert all(end - start < limit for start, end in zip(first, last, strict=True))
    asked: Any = scorer.scorer
    assert sum(row.calls for row in rows) == asked._evaluator.backend.calls == len(shares) + len(rows)


def test_short_answers_are_judged_as_they_are_and_long_ones_each_alone() -> None:
    short, long = example(FACTS[:2], "short"), example([" ".join(FACTS[:5]), FACTS[5]], "long")
    asked: list[list[str]] = []

    def noted(request: Request) -> Reply:
        asked.append(shown(request))
        return mock_reply(request)

    scorer = InWindows(rag_zeval(noted), 2)
    rows = {row.id: row for row in scorer.score([short, long])}
    (whole,) = rag_zeval().score([short])
    assert rows["short"] == replace(whole, seconds=rows["short"].seconds)
    assert asked == [FACTS[:2], [" ".join(FACTS[:2])], [" ".join(FACTS[2:4])], [FACTS[4]], [FACTS[5]]]
    assert rows["long"].values == (3 / 5, 0) and rows["long"].calls == 4 and rows["long"].parts["strict"]
    assert scorer.identity_of(rows["short"].parts) == scorer.scorer.identity
    assert (
        scorer.identity_of(rows["long"].parts)
        == scorer.identity
        == f"{scorer.scorer.identity} in plain windows of 2, then pieces of 150 words"
    )


def test_a_sentence_that_cannot_be_judged_leaves_its_answer_without_a_score_and_no_other() -> None:
    def not_of_fact_3(request: Request) -> str | Reply:
        return "Oh no." if any(FACTS[3] in answer for answer in shown(request)) else mock_reply(request)

    row, single = InWindows(rag_zeval(not_of_fact_3), 4).score(
        [example([" ".join(FACTS[:6]), " ".join(FACTS[6:8])]), example([FACTS[3]], "y")]
    )
    row, single = (row, single) if row.id == "x" else (single, row)
    assert row.values == (None, 0.5) and row.final
    assert row.scores[0].status.startswith("failed: format") and row.parts["status"] == row.scores[0].status
    assert row.parts["strict"] is False and verdicts(row)[0] is None
    assert [window["sentences"] for window in row.parts["windows"][0]] == [[1, 2], [3, 3], [4, 4], [5, 6]]
    assert [window.get("reply") for window in row.parts["windows"][0]] == [None, None, "Oh no.", None]
    assert row.calls == 7  # 1-4, 5-6 and the other answer; 1-2 and 3-4; 3 and 4
    assert single.calls == 1 and single.parts["reply"] == "Oh no." and "windows" not in single.parts


@pytest.mark.parametrize(
    ("most", "pieces", "calls"),
    [
        (160, None, 2),
        (150, 2, 2 + 2 + 2),  # the windows 1-2 and 3-4; 1 and 2 alone; then the pieces, of 150 and 10 words
        (100, 3, 2 + 2 + 2 + 2),  # the first of them in halves
        (20, None, 2 + 2 + 2 + 2),  # and no further
    ],
)
def test_a_sentence_that_was_not_read_is_asked_about_in_pieces_of_the_reference(
    most: int, pieces: int | None, calls: int
) -> None:
    """The judge loses itself in references of more words than `most`; this one has 160."""

    def reply(request: Request) -> str | Reply:
        lost = FACTS[1] in shown(request)[0] and len(
            read_prompt(request.messages[0]["content"])[1]["reference"].split()
        )
        return "Oh no." if lost > most else mock_reply(request)

    reference = " ".join([*FACTS[:3], *["There is more."] * 48, FACTS[1]])
    (row,) = InWindows(rag_zeval(reply), 2).score([example([" ".join(FACTS[:4])], reference=reference)])
    assert row.values == ((3 / 4,) if most > 20 else (None,))
    assert row.calls == calls
    if pieces:
        assert [one.get("pieces") for one in row.parts["windows"][0]] == [None, pieces, None]


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("**Two** words, **and: two**.", "Two words, and: two."),
        ("#  Title\n\n* one\n- **two**\n  + three", "Title\n\none\ntwo\nthree"),
        *[
            (text, text)
            for text in ("2 * 3 ** 4, a**b**c and __init__.py - 5", "- 5 degrees", "-  5 degrees", "> 5 mg", "#6 of 9")
        ],
    ],
)
def test_answers_that_are_judged_alone_are_shown_without_marks(answer: str, plain: str) -> None:
    asked: list[list[str]] = []

    def noted(request: Request) -> Reply:
        asked.append(shown(request))
        return mock_reply(request)

    list(InWindows(rag_zeval(noted), 100).score([example([answer]), example([answer, "It is so."], "y")]))
    assert asked == [[plain], [answer, "It is so."]]


def test_a_window_without_a_reply_is_not_asked_again() -> None:
    """It is not the judge that failed: the next run asks it again."""

    def no_reply(request: Request) -> Reply:
        return Reply(None, "failed: HTTP 500", calls=1) if FACTS[3] in shown(request)[0] else mock_reply(request)

    (row,) = InWindows(rag_zeval(no_reply), 2).score([example([" ".join(FACTS[:4])])])
    assert row.values == (None,) and not row.final and row.calls == 2 and row.scores[0].status == "failed: HTTP 500"


def test_a_sentence_without_claims_is_judged_but_an_answer_without_any_has_no_score() -> None:
    def claims_of_facts(request: Request) -> str | Reply:
        return mock_reply(request) if "Fact" in shown(request)[0] else json.dumps([{"id": "A", "atomic_claims": []}])

    rows = InWindows(rag_zeval(claims_of_facts), 1).score(
        [example([f"Well, well. {FACTS[0]}"], "some"), example(["Well, well. So it goes."], "none")]
    )
    found = {row.id: row for row in rows}
    assert found["some"].values == (1,) and found["some"].scores[0].status == "ok"
    assert found["none"].values == (None,) and found["none"].scores[0].status == "failed: no claims"


def test_a_long_reference_and_a_long_answer_are_judged_in_pieces_of_one_by_windows_of_the_other() -> None:
    """A window may draw on another piece than the next: so windows are what pieces are made for."""
    asked = rag_zeval(card={"variant": "compact", "answer_sentences": 2}, max_context=100)
    backend = asked._evaluator.backend
    long = example([" ".join([FACTS[0], FACTS[1], FACTS[19], FACTS[18]]), FACTS[7]], reference=" ".join(FACTS))
    short = example([FACTS[0]], "short", reference=FACTS[0])
    parts = plan_parts(asked, [long, short], backend)
    assert (parts.in_windows, parts.in_pieces) == (1, 1)
    assert [line.partition(",")[0] for line in parts.lines("m", 200)] == [
        "judged in pieces: 100 of 200 cases",
        "judged in windows: 100 of 200 cases",
    ]
    scorer = parts.asked(asked)
    rows = {row.id: row for row in scorer.score([long, short])}
    assert rows["x"].values == (1, 1) and [len(claims) for claims in verdicts(rows["x"])] == [4, 1]
    assert all(window["pieces"] > 1 for of_answer in rows["x"].parts["windows"] for window in of_answer)
    assert (
        scorer.identity_of(rows["x"].parts)
        == f"{asked.identity} in pieces in plain windows of 2, then pieces of 150 words"
    )
    assert scorer.identity_of(rows["short"].parts) == asked.identity
    assert {
        asked.identity,
        f"{asked.identity} in pieces in plain windows of 2, then pieces of 150 words",
    } < scorer.identities


def test_a_piece_without_claims_about_a_window_does_not_take_those_of_another_piece_out_of_the_score() -> None:
    def silent_about_fact_7(request: Request) -> str | Reply:
        is_silent = FACTS[7] in shown(request)[0] and FACTS[0] not in request.messages[0]["content"]
        return json.dumps([{"id": "A", "atomic_claims": []}]) if is_silent else mock_reply(request)

    pieces = InPieces(rag_zeval(silent_about_fact_7), lambda of: len(of.reference.split()) <= 20)
    (row,) = InWindows(pieces, 1).score([example([f"{FACTS[1]} {FACTS[7]}"], reference=" ".join(FACTS[:6]))])
    assert verdicts(row) == [[("Fact 1 is so", True), ("Fact 7 is so", False)]] and row.values == (0.5,)


def test_the_progress_of_a_group_shows_before_its_rows_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All examples of a group are asked about at once, and the batches mix their windows. Each reply takes a minute."""
    clock = [0.0]

    def slow(request: Request) -> Reply:
        clock[0] += 60
        return mock_reply(request)

    long = {str(at): example([" ".join(FACTS[:4])], str(at)) for at in range(6)}
    scorer, file = InWindows(rag_zeval(slow), 1), io.StringIO()
    scorer.group = 12
    done = Scored("1", (), final=True).row()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with RowWriter(tmp_path / "rows.jsonl") as writer, Progress(Console(file=file)) as shown:
        writer.append(done)  # a kill lost the other rows of its group, so the group is judged again
        score_rows(Work("judge", scorer, long), writer, shown, Spending())
    lines = file.getvalue().splitlines()
    assert lines[0] == "judge: 1/6, 1 partly done"
    assert lines[3] == "judge: 2/6, 0.25 rows/min, 0:16:00 left"
    assert lines[4] == "judge: 2/6, 0.14 rows/min, 0:27:00 left, 1 partly done"  # four replies about row 1 again
    assert lines[-1].startswith("judge: 6/6, ") and scorer.part_done is None


def test_short_answers_are_scored_in_larger_groups_than_long_ones(tmp_path: Path) -> None:
    """So all batches are about equally full."""
    scorer, together = InWindows(rag_zeval(mock_reply), 1), []
    scorer.group = 4
    ask = scorer.judge
    scorer.judge = lambda examples: ask(together.append(asked := list(examples)) or asked)  # type: ignore[method-assign]
    sentences = [3, 1, 2, 2, 6, 1, 0]
    cases = {str(at): example([" ".join(FACTS[:count])], str(at)) for at, count in enumerate(sentences)}
    with RowWriter(tmp_path / "rows.jsonl") as writer, Progress(Console(file=io.StringIO())) as shown:
        score_rows(Work("judge", scorer, cases), writer, shown, Spending())
    assert [[one.id for one in group] for group in together] == [["0", "1"], ["2", "3"], ["4"], ["5"]]
    assert {*writer.done} == {*cases}


def test_judges_without_a_limit_are_asked_as_before() -> None:
    asked = rag_zeval(card={"variant": "compact"})
    parts = plan_parts(asked, [example([" ".join(FACTS)])], asked._evaluator.backend)
    assert parts.asked(asked) is asked and not list(parts.lines("m", 1))


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ("It is so. Is it?\n\n* No.\n---\n", ["It is so.", "Is it?", "* No."]),
        ("...", ["..."]),  # shown to the judge as it is
    ],
)
def test_sentences_of_answers(answer: str, sentences: list[str]) -> None:
    assert answer_sentences(answer) == sentences
