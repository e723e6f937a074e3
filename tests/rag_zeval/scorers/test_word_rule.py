"""The judge by words: whole trajectories, whose verdicts follow from words that stand in the reference or do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.example import Example
from rag_zeval.judge.parser import as_reply, claims_hold_text, parse_strict
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.scorers.word_rule import WordRule, content_words, is_contested, judge_by_words

QUESTION = "When was the tower built?"
REFERENCE = "The CN Tower was built in 1976. It has 2,579 steps; few people climb them."
texts = st.lists(
    st.sampled_from("built 1976. tower Steps climb; London 1980. the was people, few".split()), max_size=12
)


@pytest.mark.parametrize(
    "answer, least, verdicts, analysis",
    [
        ("The tower was built in 1976.", 1, [True], "In the reference: 1976 yes."),
        ("The tower was built in 1980 in London.", 1, [False], "In the reference: 1980 no, London no."),
        ("The tower was built.", 0.5, [False], "The reference does not answer this."),
        (
            "Few climb its 2,579 steps. It burns.",
            1,
            [True, False],
            "In the reference: Few yes, climb yes, 2 yes, 579 yes",
        ),
        (
            "Few people live and fall.",
            1,
            [False],
            "In the reference: Few yes, people yes, live no, fall no.",
        ),
        (
            "Few people live and fall.",
            0.5,
            [True],
            "In the reference: Few yes, people yes, live no, fall no.",
        ),
        (
            "Few people live and fall.",
            0.6,
            [False],
            "In the reference: Few yes, people yes, live no, fall no.",
        ),
    ],
)
def test_verdicts(answer, least, verdicts, analysis):
    [candidate] = judge_by_words(QUESTION, REFERENCE, [answer], least)
    assert [claim.is_supported for claim in candidate.atomic_claims] == verdicts
    assert candidate.atomic_claims[0].analysis.startswith(analysis)


@pytest.mark.parametrize(
    "answers, contested",
    [
        (["It was built in 1976.", "Few people live and fall."], True),  # the second holds for half of its words only
        (["It was built in 1976.", "It was built in 1980."], False),  # however strict
        (["It was built in 1976.", "In 1976."], False),  # a tie, however strict
    ],
)
def test_answers_are_contested_if_strictness_changes_their_order(answers, contested):
    assert is_contested(QUESTION, REFERENCE, answers) == contested
    assert is_contested(QUESTION, REFERENCE, answers[::-1]) == contested


def test_evidence_is_the_sentence_that_has_most_of_the_words_that_a_claim_adds():
    reference = (
        "The tower, which the city of Toronto in Canada built in 1976, stands near Union Station and Lake Ontario. "
        "The tower of London in England is older and was built by William the Conqueror himself."
    )
    first, _, second = reference.partition(". ")
    for answer, quote in (
        ("The tower was built in Toronto.", f"{first}."),
        ("The tower was built in England.", second),
        ("The tower was built in Paris.", None),
    ):
        [candidate] = judge_by_words(QUESTION, reference, [answer], 1)
        assert [claim.grounding_evidence for claim in candidate.atomic_claims] == [(quote,) if quote else ()]


@pytest.mark.parametrize(
    "answer, claims",
    [
        ("It is the band of the band of the band of the band of the", ["It is the band of"]),
        ("H.A.S.H.A.S.H.A.S.H.A.S.", ["H.A.S."]),
        ("B. B. B. B. It burns.", ["B.", "It burns."]),
        ("In 1900 and 2000 it was bought and bought.", ["In 1900 and 2000 it was bought and bought."]),
        ("It was built in 1976. It is high. It was built in 1976.", ["It was built in 1976.", "It is high."]),
        ("It burns.", ["It burns."]),
        ("Built in 1976, it has steps.", ["Built in 1976, it has steps."]),
        (
            "The tower was built 1976 in Toronto, has 2,579 steps people climb and which visitors never forget.",
            [
                "The tower was built 1976 in Toronto,",
                "has 2,579 steps people climb",
                "and which visitors never forget.",
            ],
        ),
    ],
)
def test_a_clause_that_says_enough_is_a_claim_and_what_an_answer_repeats_is_claimed_once(answer, claims):
    [candidate] = judge_by_words(QUESTION, REFERENCE, [answer], 1)
    assert [claim.claim for claim in candidate.atomic_claims] == claims


@given(texts, texts, st.lists(texts, min_size=1, max_size=4))
def test_claims_and_quotes_stand_word_for_word_where_they_are_from(question, reference, answers):
    question, reference, *answers = (" ".join(words) for words in (question, reference, *answers))
    trajectory = judge_by_words(question, reference, answers, WordRule.least)
    for candidate, answer in zip(trajectory, answers, strict=True):
        for claim in candidate.atomic_claims:
            assert claim.claim in answer and all(quote in reference for quote in claim.grounding_evidence)
            missing = (
                content_words(claim.claim).keys() - content_words(reference).keys() - content_words(question).keys()
            )
            if missing or claim.is_supported:
                assert claim.is_supported == (not missing)
            assert not claim.is_supported or claim.grounding_evidence
    scores = WordRule().judge([Example("1", question, reference, tuple(answers))])
    for candidate, score in zip(trajectory, next(iter(scores)).scores, strict=True):
        supported = [claim.is_supported for claim in candidate.atomic_claims]
        assert score.value == (sum(supported) / len(supported) if supported else None)
        assert (score.status == "ok") == bool(supported)


@pytest.mark.parametrize("variant", [name for name, of in VARIANTS.items() if not of.echo_answer])
def test_its_trajectories_are_what_training_rewards(variant):
    trajectory = judge_by_words(QUESTION, REFERENCE, ["The tower was built in 1976. It is high.", "Nobody knows."], 1)
    read = parse_strict(as_reply(trajectory, variant), 2, variant)
    assert claims_hold_text(read, variant)
    assert [[c.claim for c in of.atomic_claims] for of in read] == [
        [c.claim for c in of.atomic_claims] for of in trajectory
    ]
