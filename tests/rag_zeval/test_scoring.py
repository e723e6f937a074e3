"""Support scores and strict rankings."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.schema import AtomicClaim, CandidateEvaluation
from rag_zeval.scoring import strictly_ranked, support_score


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
