"""The spending of a run over all its attempts, summed from its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rag_zeval.budget import Price, Tokens
from rag_zeval.files import Row
from rag_zeval.results import SPENT

UNNAMED = ""  # the judge of rows that name none: those of the benchmark, and SPENT rows of older versions


@dataclass
class Spending:
    """The calls and tokens that were paid for.

    prices: by the name of the judge in the rows, or UNNAMED; empty if unknown. tokens: those of prompts and of replies
    that each judge was paid for. embedded: tokens of rows that asked only an embedding model, which has no price.
    bounded: calls that did not report their tokens, which are counted with an upper bound. untold: rows whose tokens
    are unknown and not counted. unasked: rows that were not judged, or not completely, because the budget was spent.
    earlier_calls, earlier_dollars: the part of earlier runs.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    calls: int = 0
    tokens: dict[str, Tokens] = field(default_factory=dict)
    embedded: int = 0
    bounded: int = 0
    untold: int = 0
    unasked: int = 0
    earlier_calls: int = 0
    earlier_dollars: float = 0.0

    def add(self, row: Row) -> None:
        """Count a result row, or the SPENT row."""
        calls, tokens = row.get("calls", 0), row.get("paid_tokens")
        self.calls += calls
        self.embedded += row.get("embedded", 0)
        if row.get("model", "") is None:
            self.embedded += tokens[0] if tokens else 0
            return
        prompt, completion = tokens or (0, 0)
        for judge, (of_prompt, of_completion) in row.get("by_judge", {}).items():
            self._pay(judge, of_prompt, of_completion)
            prompt, completion = max(0, prompt - of_prompt), max(0, completion - of_completion)
        self._pay(row.get("model", UNNAMED), prompt, completion)
        self.bounded += row.get("bounded", 0)
        self.untold += row.get("untold", int(calls > 0 and tokens is None))

    def _pay(self, judge: str, prompt: int, completion: int) -> None:
        if prompt or completion:
            before = self.tokens.get(judge, (0, 0))
            self.tokens[judge] = before[0] + prompt, before[1] + completion

    @property
    def prompt_tokens(self) -> int:
        return sum(prompt for prompt, _ in self.tokens.values())

    @property
    def completion_tokens(self) -> int:
        return sum(completion for _, completion in self.tokens.values())

    @property
    def unpriced(self) -> list[str]:
        """The judges that were paid but have no price."""
        return [judge for judge in self.tokens if judge not in self.prices]

    @property
    def dollars(self) -> float | None:
        """The cost of the tokens; None without prices. `dollars_exactness` says whether it is a bound."""
        if not self.prices:
            return None
        return sum(self.prices[judge].of(*tokens) for judge, tokens in self.tokens.items() if judge in self.prices)

    @property
    def shown(self) -> str:
        """The dollars, formatted for the progress display; empty without a price."""
        return "" if self.dollars is None else f"${self.dollars:.4f}"

    @property
    def exactness(self) -> str:
        """The words before tokens: "at least " if some are unknown, "at most " if some are bounds."""
        return "at least " if self.untold else "at most " if self.bounded else ""

    @property
    def dollars_exactness(self) -> str:
        """The words before dollars: those before tokens, but "at least " if a judge has no price."""
        return "at least " if self.unpriced else self.exactness


def spent_before(rows: Mapping[str, Row], again: Iterable[str]) -> Row:
    """Return the SPENT row that replaces the rows `again`: their costs, added to those of the SPENT row of `rows`.

    `Scored.from_row` reads it as an example without answers.
    """
    total = Spending()
    for id_ in [*again, *([SPENT] if SPENT in rows else [])]:
        total.add(rows[id_])
    return {
        "id": SPENT,
        "scores": [],
        "final": True,
        "calls": total.calls,
        "prompt_tokens": None,
        "completion_tokens": None,
        "paid_tokens": [total.prompt_tokens, total.completion_tokens],
        "by_judge": {judge: list(tokens) for judge, tokens in total.tokens.items() if judge != UNNAMED},
        "embedded": total.embedded,
        "bounded": total.bounded,
        "untold": total.untold,
    }
