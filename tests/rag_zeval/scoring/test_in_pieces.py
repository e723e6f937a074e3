"""References that do not fit a model are judged in pieces, and none is cut silently."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_backend import ScriptedBackend

from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.scoring.estimate import mock_reply
from rag_zeval.scoring.in_pieces import InPieces, fits_judge
from rag_zeval.scoring.in_windows import plan_parts

SENTENCES = [f"Fact {number} is so." for number in range(9)]
LONG = Example(
    "x", "", " ".join(SENTENCES), ("Fact 1 is so.", "Fact 8 is so.", "Fact 12 is so."), chunks=("all of it",)
)
CHUNKED = replace(LONG, reference_kind="contexts")


def at_most(words: int) -> Any:
    return lambda example: len(example.reference.split()) <= words


class Verbatim(Scorer):
    """1 where the answer stands in the reference, 0 where not; none for an answer with "fail". It notes references."""

    name = identity = "verbatim"
    needs = ("answer", "reference")

    def __init__(self) -> None:
        self.asked: list[Example] = []

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in reversed(list(examples)):  # any order
            self.asked.append(example)
            scores = [
                Score(None, f"failed: {example.id}") if "fail" in answer else Score(float(answer in example.reference))
                for answer in example.answers
            ]
            yield Scored(example.id, tuple(scores), {"of": example.reference}, calls=1, paid_tokens=(3, 2))


@given(st.integers(4, 40))
def test_an_answer_has_the_best_score_of_a_piece_and_nothing_is_lost(words: int) -> None:
    scorer = Verbatim()
    short = replace(LONG, id="y", reference="Fact 1 is so.")
    in_pieces, shares = InPieces(scorer, at_most(words)), list[float]()
    in_pieces.part_done = lambda _, share: shares.append(share)
    found = {row.id: row for row in in_pieces.score([CHUNKED, short])}
    assert found["x"].values == (1, 1, 0) and found["y"].values == (1, 0, 0)
    pieces = [one for one in scorer.asked if one.id.startswith("x#")]
    assert shares == [at / len(pieces) for at in range(1, len(pieces))]
    assert " ".join(one.reference for one in sorted(pieces, key=lambda one: one.id)) == LONG.reference
    assert all(len(one.reference.split()) <= words for one in pieces)
    assert all(one.chunks == ((one.reference,) if len(pieces) > 1 else CHUNKED.chunks) for one in pieces)
    assert (found["x"].calls, found["x"].paid_tokens) == (len(pieces), (3 * len(pieces), 2 * len(pieces)))
    assert found["y"].parts == {"of": "Fact 1 is so."}  # as if it had not been wrapped


@pytest.mark.parametrize("whole", [LONG, replace(LONG, reference_kind="truth"), replace(CHUNKED, reference="short")])
def test_contexts_that_are_no_part_of_the_pieces_are_shown_unchanged(whole: Example) -> None:
    """A criteria file may show a judge both a ground truth and the contexts."""
    scorer = Verbatim()
    list(InPieces(scorer, at_most(20)).score([whole]))
    assert {one.chunks for one in scorer.asked} == {whole.chunks}


def test_a_piece_without_a_score_leaves_its_answer_without_one() -> None:
    [row] = InPieces(Verbatim(), at_most(20)).score([replace(LONG, answers=("Fact 1 is so.", "fail"))])
    assert row.values == (1, None) and row.scores[1].status.startswith("failed: x#")
    assert len(row.parts["pieces"]) == 2


def test_a_judges_window_decides_what_fits() -> None:
    small = ScriptedBackend(mock_reply, max_context=80)  # words: 36 of the reference, 12 of the answers
    assert not fits_judge(small)(LONG)
    assert fits_judge(ScriptedBackend(mock_reply, max_context=96))(LONG)
    assert fits_judge(ScriptedBackend(mock_reply))(LONG)  # not known: the server says no
    scorer = Verbatim()
    assert plan_parts(scorer, [LONG], None).asked(scorer) is scorer
    wrapped = plan_parts(scorer, [replace(LONG, reference="short"), LONG], small).asked(scorer)
    assert isinstance(wrapped, InPieces) and wrapped.identity == "verbatim in pieces"


def test_rag_zeval_judges_claims_about_a_long_document_in_pieces() -> None:
    backend = ScriptedBackend(mock_reply, max_context=100_000)
    scorer = InPieces(RagZeval(backend, None, Sampling()), at_most(12))
    [row] = scorer.score([LONG])
    assert row.values == (1, 1, 0) and row.calls == backend.calls == 3
    assert [len(parts["trajectory"]) for parts in row.parts["pieces"]] == [3, 3, 3]
