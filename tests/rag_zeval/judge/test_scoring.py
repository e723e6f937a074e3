"""Support scores, strict rankings, and scores from ranks."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation
from rag_zeval.judge.scoring import rank_scores, strictly_ranked, support_score


@given(st.lists(st.booleans(), max_size=20))
def test_support_is_the_share_of_supported_claims(verdicts):
    score = support_score(CandidateEvaluation("A", tuple(AtomicClaim("c", v) for v in verdicts)))
    assert score == (verdicts.count(True) / len(verdicts) if verdicts else None)


values = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@given(st.lists(st.tuples(values, st.sampled_from([0.0, -0.5, -1.0, -1.4])), min_size=1, max_size=5))
def test_strictly_ranked_is_the_definition(pairs):
    expected = all(
        s1 is not None and s2 is not None and s1 > s2
        for (s1, t1), (s2, t2) in itertools.permutations(pairs, 2)
        if t1 > t2
    )
    assert strictly_ranked([s for s, _ in pairs], [t for _, t in pairs]) == expected


@given(st.integers(2, 26).flatmap(lambda k: st.permutations(LETTERS[:k])))
def test_scores_from_ranks_fall_evenly_from_1_to_0(ranking):
    scores = dict(zip(LETTERS, rank_scores(ranking), strict=False))
    steps = len(ranking) - 1
    assert [scores[letter] for letter in ranking] == pytest.approx([1 - rank / steps for rank in range(steps + 1)])
    assert strictly_ranked(rank_scores(ranking), [-ranking.index(letter) for letter in sorted(ranking)])


def test_one_candidate_has_no_rank():
    with pytest.raises(ValueError, match="two"):
        rank_scores(["A"])
