"""The suffix automaton against the textbook dynamic programme."""

import random

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evidence import MIN_SPAN_TOKENS, ReferenceIndex, grounding


def longest_common_substring(first, second):
    """The O(n m) table of any algorithms book."""
    best, above = 0, [0] * (len(second) + 1)
    for x in first:
        row = [0] * (len(second) + 1)
        for j, y in enumerate(second, 1):
            if x == y:
                row[j] = above[j - 1] + 1
                best = max(best, row[j])
        above = row
    return best


def test_equals_the_textbook_on_10000_random_cases():
    rng = random.Random(0)
    for _ in range(10_000):
        alphabet = rng.choice([1, 2, 3, 8, 50])
        reference = [rng.randrange(alphabet) for _ in range(rng.randrange(0, 30))]
        span = [rng.randrange(alphabet + 1) for _ in range(rng.randrange(0, 20))]
        assert ReferenceIndex(reference).longest_common_span(span) == longest_common_substring(reference, span)


@given(st.lists(st.integers(0, 5), max_size=40), st.lists(st.integers(0, 5), max_size=40))
def test_grounding_is_a_share_and_short_spans_count_nothing(reference, span):
    value = grounding(span, ReferenceIndex(reference))
    assert 0 <= value <= 1
    if len(span) < MIN_SPAN_TOKENS:
        assert value == 0
    else:
        assert value == longest_common_substring(reference, span) / len(span)
