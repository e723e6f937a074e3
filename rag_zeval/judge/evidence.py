"""How verbatim a quote is: the longest run of tokens that it shares with the reference.

Tokens may be anything hashable: ids of the policy's tokenizer in training, words in reports.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

MIN_SPAN_TOKENS = 10  # a shorter span scores 0 (paper, section 3.3.2): a single copied word is not evidence


class ReferenceIndex:
    """Suffix automaton of a reference (Blumer et al., 1985): built in O(n), then O(len(span)) for each span.

    An empty reference is allowed, and matches nothing.
    A state represents the runs of the reference that end at the same places. The longest of them has `length[state]`
    tokens. The others are suffixes of it, longer than the runs of the state `link[state]`. State 0 is the empty run.

    >>> ReferenceIndex("a b c d".split()).longest_common_span("x b c y".split())
    2
    """

    def __init__(self, tokens: Iterable[Hashable]):
        moves: list[dict[Hashable, int]] = [{}]
        link, length, last = [-1], [0], 0
        for token in tokens:
            state = len(moves)
            moves.append({})
            length.append(length[last] + 1)
            link.append(0)
            at = last
            while at != -1 and token not in moves[at]:
                moves[at][token] = state
                at = link[at]
            if at != -1:
                target = moves[at][token]
                if length[at] + 1 == length[target]:
                    link[state] = target
                else:
                    clone = len(moves)
                    moves.append(moves[target].copy())
                    length.append(length[at] + 1)
                    link.append(link[target])
                    while at != -1 and moves[at].get(token) == target:
                        moves[at][token] = clone
                        at = link[at]
                    link[target] = link[state] = clone
            last = state
        self._moves, self.link, self.length = moves, link, length

    def longest_common_span(self, span: Sequence[Hashable]) -> int:
        """Return the length in tokens of the longest contiguous run of `span` that also occurs in the reference."""
        return max((run for _, run in self.follow(span)), default=0)

    def follow(self, tokens: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
        """Yield `(state, run)` after each token. run: tokens of the longest run of the reference that ends here."""
        moves, link, length = self._moves, self.link, self.length
        state = run = 0
        for token in tokens:
            while state and token not in moves[state]:
                state = link[state]
                run = length[state]
            if token in moves[state]:
                state = moves[state][token]
                run += 1
            yield state, run


def grounding(span: Sequence[Hashable], reference: ReferenceIndex) -> float:
    """Return the verbatim share of a quote: longest common span / span length, in [0, 1] (paper, section 3.3.2).

    0 for a span under MIN_SPAN_TOKENS tokens.
    """
    return reference.longest_common_span(span) / len(span) if len(span) >= MIN_SPAN_TOKENS else 0.0
