"""What a run has spent, over all its attempts, and where it must stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_zeval.evaluation.prices import Price
from rag_zeval.files import Row
from rag_zeval.results import SPENT


@dataclass
class Spending:
    """Calls and tokens (prompt, completion) paid for; `untold`: rows whose calls did not tell their tokens.

    price: of the judge, None where it is not known; most: dollars that may be spent, None: any.
    """

    price: Price | None = None
    most: float | None = None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    untold: int = 0

    def add(self, row: Row) -> None:
        """Count a result row, or the row of what was spent before."""
        tokens = row.get("paid_tokens")
        self.calls += row["calls"]
        self.prompt_tokens += tokens[0] if tokens else 0
        self.completion_tokens += tokens[1] if tokens else 0
        self.untold += row.get("untold", int(row["calls"] > 0 and tokens is None))

    @property
    def dollars(self) -> float | None:
        """A minimum where tokens are untold; None without a price."""
        return None if self.price is None else self.price.of(self.prompt_tokens, self.completion_tokens)

    @property
    def is_over(self) -> bool:
        return self.most is not None and (self.dollars or 0.0) >= self.most


def spent_before(rows: Mapping[str, Row], again: Iterable[str]) -> Row:
    """The row that keeps what the rows `again` have cost, which are to be replaced, and what it kept before."""
    total = Spending()
    for id_ in [*again, *([SPENT] if SPENT in rows else [])]:
        total.add(rows[id_])
    tokens = [total.prompt_tokens, total.completion_tokens]
    return {"id": SPENT, "calls": total.calls, "paid_tokens": tokens, "untold": total.untold}
