"""How verbatim a quote is: the longest run of tokens it shares with the reference.

The token sequences may be ids of the policy's tokenizer (training) or words (reports): any hashable tokens do.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MIN_SPAN_TOKENS = 10  # a shorter span counts 0 (paper, section 3.2): a single copied word is no evidence


class ReferenceIndex:
    """Suffix automaton of a reference (Blumer et al., 1985): built once in O(n), then each span in O(len(span)).

    `tokens` is any sequence of hashable tokens; an empty one is allowed and matches nothing.
    """

    def __init__(self, tokens: Sequence[Hashable]):
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
        self._moves, self._link, self._length = moves, link, length

    def longest_common_span(self, span: Sequence[Hashable]) -> int:
        """Length, in tokens, of the longest contiguous run of `span` that also stands in the reference."""
        moves, link, length = self._moves, self._link, self._length
        state = run = best = 0
        for token in span:
            while state and token not in moves[state]:
                state = link[state]
                run = length[state]
            if token in moves[state]:
                state = moves[state][token]
                run += 1
                if run > best:
                    best = run
        return best


def grounding(span: Sequence[Hashable], reference: ReferenceIndex) -> float:
    """Share of a quote that is verbatim: longest common span / span length, in [0, 1] (paper, Eq. 5).

    0 for a span under MIN_SPAN_TOKENS tokens.
    """
    return reference.longest_common_span(span) / len(span) if len(span) >= MIN_SPAN_TOKENS else 0.0
