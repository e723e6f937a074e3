"""How verbatim a quote is: the longest run of tokens it shares with the reference.

The token sequences may be ids of the policy's tokenizer (training) or words (reports): any hashable tokens do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

MIN_SPAN_TOKENS = 10  # a shorter span counts 0 (paper, section 3.3.2): a single copied word is no evidence


class ReferenceIndex:
    """Suffix automaton of a reference (Blumer et al., 1985): built once in O(n), then each span in O(len(span)).

    `tokens` are any hashable ones; none at all are allowed and match nothing.
    A state stands for runs of the reference that end at the same places. The longest has `length[state]` tokens, the
    others are ends of it, all of them longer than those of the state `link[state]`. State 0 stands for the empty run.
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
        """Length, in tokens, of the longest contiguous run of `span` that also stands in the reference."""
        moves, link, length = self._moves, self.link, self.length
        state = run = best = 0
        for token in span:  # as `follow` goes, written out: training does this for every quote of every rollout
            while state and token not in moves[state]:
                state = link[state]
                run = length[state]
            if token in moves[state]:
                state = moves[state][token]
                run += 1
                if run > best:
                    best = run
        return best

    def follow(self, tokens: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
        """`(state, run)` after each token: the longest run that ends here and stands in the reference, in tokens."""
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
    """Share of a quote that is verbatim: longest common span / span length, in [0, 1] (paper, section 3.3.2).

    0 for a span under MIN_SPAN_TOKENS tokens.
    """
    return reference.longest_common_span(span) / len(span) if len(span) >= MIN_SPAN_TOKENS else 0.0
