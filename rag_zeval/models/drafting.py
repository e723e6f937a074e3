"""Drafts the next tokens by looking them up in earlier text. Decoding checks them, so a wrong draft only costs time.

A judge's reply repeats itself, its prompt, other replies to the same prompt, and the form of all replies. So `Drafts`
looks up the last n tokens of a row, for several n, in two tables that say which token followed them before:

- The family's table has the prompt and all replies to it, token by token.
- The common table has all replies. In it, a prompt's own tokens (those in at most half of the prompts) are written as
  "the k-th last own token". So `Claim: Turin. Reference: Oslo.` in one reply drafts the same sentences about other
  towns.

For each last token, `Drafts` learns from the outcomes which table and which n to trust.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

ORDERS = (1, 2, 3, 5, 8, 16)  # the values of n
SOURCES = [("family", n) for n in ORDERS] + [("common", n) for n in ORDERS]
RATE = 0.15  # weight of the latest outcome in the trust that a source gets
HOPELESS = 0.05  # a draft ends where the probability that it is right falls below this
# What a forward pass costs beside its tokens, in tokens. On a CPU, passes of the nano and the small judge (fp32 and
# bfloat16, 400 tokens before) took as long as 17 to 32 tokens more, and 0.6 to 2.5 more for each row. A GPU's cost was
# not measured.
PASS_COST = {"cpu": 32, "cuda": 512}
ROW_COST = 1  # to read a row's keys and values

Table = dict[tuple[int, ...], int]


class Drafts:
    """The text of each row so far, and the tables to draft from. Rows with equal prompts form a family.

    device: the kind of device that decodes, "cpu" or "cuda".
    """

    def __init__(self, prompts: Sequence[Sequence[int]], device: str):
        self._pass_cost = PASS_COST[device]
        distinct = {tuple(prompt) for prompt in prompts}
        prompts_with = Counter(token for prompt in distinct for token in set(prompt))
        families: dict[tuple[int, ...], _Text] = {}
        for prompt in distinct:
            own = {token for token in prompt if 2 * prompts_with[token] <= len(distinct)}
            families[prompt] = _Text(own, {}, [], [], [])
            for token in prompt:
                families[prompt].append(token)
            _learn(families[prompt].family, families[prompt].tokens, len(prompt))
        self._texts = [families[tuple(prompt)].fork() for prompt in prompts]
        self._common: Table = {}
        self._trust: dict[int, list[float]] = {}  # by last token: how often each source was right lately
        self._ranking: dict[int, list[int]] = {}  # by last token: the sources, most trusted first
        self._open: dict[int, list[tuple[int, int]]] = {}  # by row: source and token of each step of its draft

    def propose(self, rows: Sequence[int], most: int) -> list[list[int]]:
        """Return a draft of at most `most` tokens for each of these rows.

        All drafts are cut at the same length: the one that gives the most expected tokens for the time of a pass.
        """
        drafts, hopes = [], [0.0] * most  # hopes: expected number of rows right up to here
        for row in rows:
            draft, chances = self._draft(row, most)
            drafts.append(draft)
            for at, chance in enumerate(chances):
                hopes[at] += chance
        expected, best, cut = float(len(rows)), 0.0, 0
        for length, hope in enumerate([0.0, *hopes]):
            expected += hope
            cost = self._pass_cost + (ROW_COST + 1 + length) * len(rows)
            if expected / cost > best:
                best, cut = expected / cost, length
        return [draft[:cut] for draft in drafts]

    def _draft(self, row: int, most: int) -> tuple[list[int], list[float]]:
        text, common = self._texts[row].fork(max(ORDERS)), self._common
        steps: list[tuple[int, int]] = []
        chance, chances = 1.0, []
        while len(steps) < most:
            last = text.tokens[-1]
            if last not in self._ranking:
                trust = self._trust.setdefault(last, list(_PRIOR))
                self._ranking[last] = sorted(range(len(SOURCES)), key=trust.__getitem__, reverse=True)
            for source in self._ranking[last]:
                token = text.look_up(source, common)
                if token is not None:
                    break
            else:
                break
            chance *= self._trust[last][source]
            if chance < HOPELESS:
                break
            chances.append(chance)
            steps.append((source, token))
            text.append(token)
        self._open[row] = steps
        return [token for _, token in steps], chances

    def accept(self, row: int, tokens: Sequence[int]) -> None:
        """Learn from the tokens that were decoded in this row, and add them to its text."""
        text, steps = self._texts[row], self._open.pop(row, [])
        for at, token in enumerate(tokens):
            last = text.tokens[-1]
            trust = self._trust.setdefault(last, list(_PRIOR))
            if at < len(steps) and steps[at][1] == token:
                trust[steps[at][0]] += RATE * (1 - trust[steps[at][0]])
            else:
                steps = []
                for source in range(len(SOURCES)):
                    found = text.look_up(source, self._common)
                    if found is not None:
                        trust[source] += RATE * ((found == token) - trust[source])
                self._ranking.pop(last, None)
            text.append(token)
        _learn(text.family, text.tokens, len(tokens))
        _learn(self._common, text.codes, len(tokens))


_PRIOR = [1 - 0.5 / n**0.5 - 0.001 * (table == "common") for table, n in SOURCES]


class _Text:
    """A prompt and its reply so far. codes: its tokens, but the k-th last own token is written as -k."""

    def __init__(self, own: set[int], family: Table, tokens: list[int], codes: list[int], recent: list[int]):
        self.own, self.family, self.tokens, self.codes, self.recent = own, family, tokens, codes, recent

    def fork(self, last: int = 0) -> _Text:
        """Return a copy, with only the last `last` tokens if given. The copies share the family's table."""
        return _Text(self.own, self.family, self.tokens[-last:], self.codes[-last:], self.recent[:])

    def append(self, token: int) -> None:
        self.tokens.append(token)
        if token not in self.own:
            self.codes.append(token)
            return
        place = self.recent.index(token) if token in self.recent else len(self.recent)
        self.codes.append(-1 - place)
        self.recent[place : place + 1] = []
        self.recent.insert(0, token)

    def look_up(self, source: int, common: Table) -> int | None:
        """Return the token that a source predicts next; None if it predicts none."""
        table, n = SOURCES[source]
        if table == "family":
            return self.family.get(tuple(self.tokens[-n:]))
        code = common.get(tuple(self.codes[-n:]))
        if code is None or code >= 0:
            return code
        return self.recent[-1 - code] if -code <= len(self.recent) else None


def _learn(table: Table, tokens: list[int], new: int) -> None:
    """Enter the last `new` tokens into a table, each under the n tokens before it, for every n."""
    tail = tuple(tokens[-new - max(ORDERS) :])
    for at in range(max(1, len(tail) - new), len(tail)):
        token = tail[at]
        for n in ORDERS:
            if n <= at:
                table[tail[at - n : at]] = token
