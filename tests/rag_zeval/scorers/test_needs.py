"""What each scorer needs: without it there is no score, a reason in plain words, and no call."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import CheckerStub, example_of
from scripted_backend import ScriptedBackend
from tiny_bert import write_bert

from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import ANSWERS, ANY_ANSWER, NOUNS, judged_by
from rag_zeval.models.language_model import Sampling
from rag_zeval.results import sources
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import MEASURES, NEEDS, SCORERS, TEXT_SCORERS
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scoring.estimate import WordEmbedder, mock_reply
from rag_zeval.scoring.opening import Asking, Models, open_scorer
from rag_zeval.text import is_blank

BLANKS = ("", " \n\t\u3000", "\u200b", "\ufeff\u200e\u00ad\u2060")
FIRST, SECOND = "Fact 0 holds [1]. Fact 9 holds [2].", "Fact 1 holds [1]. Fact 2 holds [2]."
WHOLE = replace(example_of(FIRST, SECOND), chunks=example_of().chunks * 2)
SHORT = Example("x", "q", "ann sat", ("ann", "a cat sat"))  # for a model that reads 18 characters
RETRIEVAL = [name for name, needs in NEEDS.items() if not set(ANSWERS) & set(needs)]
OVERLAP = [name for name, needs in NEEDS.items() if ANY_ANSWER in needs]  # an empty text is an answer to them


class Asked:
    """The scorer of a name with the rule-based mock judge; `calls`: how often it asked anything of any model."""

    def __init__(self, name: str, folder: Path):
        self.judge, self.embedder = ScriptedBackend(mock_reply), WordEmbedder()
        self.checker = CheckerStub(lambda premise, hypothesis: 0.5 if hypothesis in premise else 1.0)
        self.encoder = Mock(call_count=0)
        self.name, self.folder = name, str(folder)

    @property
    def calls(self) -> int:
        return self.judge.calls + self.embedder.calls + len(self.checker.asked) + self.encoder.call_count

    def score(self, example: Example) -> Scored:
        models, asking = Models(self.judge, self.embedder, self.checker, self.folder), Asking(variant="paper")
        if self.name == CheckedClaims.name:
            judged = RagZeval(ScriptedBackend(mock_reply), "paper", Sampling()).score([example])
            scorer: Scorer = CheckedClaims(self.checker, {one.id: one for one in judged}, "judge")
        else:
            scorer = open_scorer(self.name, models, asking)
        if isinstance(scorer, BertScore):
            self.encoder = scorer._tokens = Mock(wraps=scorer._tokens)  # type: ignore[method-assign]
        (scored,) = scorer.score([example])
        return scored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(params=SCORERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def whole(name: str) -> Example:
    return SHORT if name == BertScore.name else WHOLE


def without(example: Example, fields: Sequence[str], text: str) -> Example:
    blank = {"truth": text, "reference": text, "chunks": (text,) * 2}
    return replace(example, **{field: blank[field] for field in fields})


def test_every_scorer_says_what_it_needs_and_that_is_all_it_looks_at(name: str, folder: Path) -> None:
    needs, also = NEEDS[name], MEASURES[name].also if name in MEASURES else ()
    looked_at = {field for need in (*needs, *also) for field in need.split(" or ")}
    assert looked_at <= {*ANSWERS, "reference", "truth", "chunks"}
    assert "reference" not in needs or not {"truth", "chunks"} & looked_at  # a row keeps one text, and chunks beside it
    expected = Asked(name, folder).score(whole(name))
    assert None not in expected.values
    others = [field for field in ("truth", "reference", "chunks") if field not in looked_at]
    for text in BLANKS:
        assert Asked(name, folder).score(without(whole(name), others, text)).scores == expected.scores


def test_without_what_it_needs_there_is_no_score_and_no_call(name: str, folder: Path) -> None:
    for need in NEEDS[name]:
        if need in ANSWERS:
            continue
        for text in BLANKS:
            asked = Asked(name, folder)
            scored = asked.score(without(whole(name), need.split(" or "), text))
            assert scored.values == (None, None) and asked.calls == 0, (need, text)
            assert {one.status for one in scored.scores} == {f"failed: no {NOUNS[need.split(' or ')[0]]}"}
            assert scored.final and (scored.calls, scored.paid_tokens) == (0, (0, 0))
    if missing := [need for need in NEEDS[name] if need not in ANSWERS]:
        bare = replace(whole(name), truth=None, reference="", chunks=())
        words = " and ".join(f"no {NOUNS[need.split(' or ')[0]]}" for need in missing)
        assert Asked(name, folder).score(bare).scores[0].status == f"failed: {words}"


def test_an_answer_that_is_none_is_not_judged_and_the_others_are(name: str, folder: Path) -> None:
    given_whole = whole(name)
    _, second = given_whole.answers
    alone = Asked(name, folder)
    expected = alone.score(replace(given_whole, answers=(second,)))
    for text in BLANKS:
        asked = Asked(name, folder)
        reasons = ("no answer", "") if name in OVERLAP else ()
        scored = asked.score(replace(given_whole, answers=(text, second), unanswered=reasons))
        assert scored.scores[1] == expected.scores[0]
        if name in RETRIEVAL:
            assert scored.scores[0] == scored.scores[1]
            continue
        assert (scored.scores[0].value, scored.scores[0].status) == (None, "failed: no answer")
        assert asked.calls == alone.calls
        for part in ("trajectory", "answers"):
            if part in expected.parts:
                (one,) = expected.parts[part]
                assert scored.parts[part] == [{} if part == "answers" else None, one]
        if name in OVERLAP:
            continue
        asked = Asked(name, folder)
        scored = asked.score(replace(given_whole, answers=(text, text), truth=None, reference=text, chunks=()))
        assert asked.calls == 0 and {one.status for one in scored.scores} == {"failed: no answer"}


def test_why_there_is_no_answer_is_said(name: str, folder: Path) -> None:
    example = replace(whole(name), unanswered=("no answer: HTTP 429:\nslow down", ""))
    scored = Asked(name, folder).score(replace(example, answers=("", example.answers[1])))
    assert scored.scores[1].status == "ok"
    assert scored.scores[0].status == ("ok" if name in RETRIEVAL else "failed: no answer: HTTP 429: slow down")


def test_examples_with_nothing_to_judge_by_come_back_among_the_others_and_each_once() -> None:
    asked = ScriptedBackend(mock_reply)
    examples = [replace(WHOLE, id=str(n), reference=WHOLE.reference if n % 3 else "\u200b") for n in range(30)]
    found = [one.id for one in RagZeval(asked, "paper", Sampling()).score(examples)]
    assert sorted(found, key=int) == [one.id for one in examples] and asked.calls == 20


@pytest.mark.parametrize("kind", ["truth", "contexts", "reference"])
def test_what_the_reference_is_names_what_is_missing(kind: str) -> None:
    example = replace(WHOLE, reference="", reference_kind=kind)
    (scored,) = TEXT_SCORERS["rouge_l"]().score([example])
    assert scored.scores[0].status == f"failed: no {NOUNS[kind]}"


@pytest.mark.parametrize("name", ["is_correct", "embedding_similarity", "hhem", "nuggets_all"])
def test_only_a_reference_of_its_own_stands_in_for_what_is_missing(name: str, folder: Path) -> None:
    """Contexts that are the reference are no ground truth, and a truth that is the reference was not retrieved."""
    for kind in ("truth", "contexts"):
        asked = Asked(name, folder)
        bare = replace(WHOLE, truth=None, chunks=(), reference_kind=kind)
        assert asked.score(bare).values == (None, None) and asked.calls == 0
    assert None not in Asked(name, folder).score(replace(bare, reference_kind="reference")).values


@pytest.mark.parametrize(("reference", "answers"), [*((text, ("a", "b")) for text in BLANKS), ("r", BLANKS)])
def test_the_evaluator_asks_nothing_where_there_is_nothing_to_judge(reference: str, answers: tuple[str, ...]) -> None:
    backend = ScriptedBackend([])
    found = Evaluator(backend).evaluate("q", reference, answers)
    assert found.status == f"failed: no {'answer' if reference == 'r' else 'reference'}"
    assert found.scores == [None] * len(answers) and backend.calls == 0


INVISIBLE = (
    " \t\r\n\x00\x1f\u00a0\u00ad\u034f\u061c\u115f\u1160\u180e\u2000\u200b\u200d\u200f\u2028\u202e\u2060\u206f"
    "\u2800\u3000\u3164\ufe0f\ufeff\uffa0\U000e0020\U000e0100"
)


@given(st.text(st.sampled_from(INVISIBLE)))
def test_what_nobody_sees_is_blank(text: str) -> None:
    assert is_blank(text) and is_blank([text]) and is_blank((text, "", text)) and is_blank(None) and is_blank([])


@given(
    st.text(st.sampled_from(INVISIBLE)),
    st.sampled_from("a1.?…م中🙂\U000e0100"[:-1]),
    st.text(st.sampled_from(INVISIBLE)),
)
def test_what_anybody_sees_is_not(before: str, seen: str, after: str) -> None:
    assert not is_blank(before + seen + after) and not is_blank([before, seen]) and not is_blank((after, seen))


@pytest.mark.parametrize(
    ("scorer", "kind", "kept"),
    [
        ("rouge_l", "contexts", {"reference": "C1\n\nC2", "reference_kind": "contexts"}),
        ("rouge_l", "truth", {"reference": "T", "reference_kind": "truth"}),
        ("rag_zeval", "reference", {"reference": "R", "reference_kind": "reference"}),
        ("is_correct", "reference", {"reference": "T", "reference_kind": "truth"}),
        ("umbrela", "reference", {"reference": "C1\n\nC2", "reference_kind": "contexts"}),
        ("ragas_context_recall", "reference", {"reference": "T", "reference_kind": "truth", "chunks": ["C1", "C2"]}),
        ("ccrs_ac", "reference", {"reference": "T", "reference_kind": "truth", "chunks": ["C1", "C2"]}),
        ("answered", "reference", {"reference": "", "reference_kind": None}),
    ],
)
def test_what_a_score_was_made_from_is_kept_by_its_name(scorer: str, kind: str, kept: dict[str, Any]) -> None:
    texts = {"contexts": "C1\n\nC2", "truth": "T", "reference": "R"}
    example = Example("x", "q", texts[kind], ("a",), "T", ("C1", "C2"), kind)
    also = MEASURES[scorer].also if scorer in MEASURES else ()
    assert judged_by(example, NEEDS[scorer], also) == kept


@pytest.mark.parametrize("kind", ["contexts", "truth", "reference"])
@pytest.mark.parametrize(
    "inputs", [*permutations(("reference", "truth", "chunks"), 2), ("chunks", "truth", "reference")]
)
def test_each_text_that_the_rules_of_a_criteria_file_see_is_kept_once_by_its_own_name(
    kind: str, inputs: tuple[str, ...]
) -> None:
    texts = {"reference": "R", "truth": "T", "contexts": "C1\n\nC2"}
    example = Example("x", "q", texts[kind], ("a",), "T", ("C1", "C2"), kind)
    kinds = {{"reference": kind, "chunks": "contexts"}.get(one, one) for one in inputs}
    told = sources(judged_by(example, ("answer", *inputs)))
    assert sorted(told) == sorted((NOUNS[one], texts[one]) for one in kinds)


def test_a_reference_of_its_own_that_stands_in_is_called_so_and_what_is_missing_keeps_its_name() -> None:
    example = Example("x", "q", "R", ("a",))
    assert judged_by(example, NEEDS["is_correct"]) == {"reference": "R", "reference_kind": "reference"}
    bare = replace(example, reference="")
    assert judged_by(bare, NEEDS["is_correct"]) == {"reference": "", "reference_kind": "truth"}
    assert judged_by(bare, NEEDS["ragas_context_recall"]) == {
        "reference": "", "reference_kind": "truth", "chunks": []
    }  # fmt: skip


@pytest.mark.parametrize("name", ["bleu", "rouge_l"])
def test_an_empty_answer_overlaps_with_nothing(name: str, folder: Path) -> None:
    """As in the benchmarks whose published values count it."""
    scored = Asked(name, folder).score(replace(WHOLE, answers=("", "It is so.")))
    assert (scored.scores[0].value, scored.scores[0].status) == (0.0, "ok")
