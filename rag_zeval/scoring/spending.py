"""What a run has spent, over all its attempts, by its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_zeval.budget import Price
from rag_zeval.files import Row
from rag_zeval.results import SPENT


@dataclass
class Spending:
    """Calls and tokens (prompt, completion) paid for.

    price: of the judge, None where it is not known. bounded: calls that did not tell their tokens, and are counted with
    as many as there can have been; untold: rows of which nothing is known, and nothing counted. unasked: rows that were
    not asked for, or not to their end, because the budget was spent.
    """

    price: Price | None = None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    bounded: int = 0
    untold: int = 0
    unasked: int = 0

    def add(self, row: Row) -> None:
        """Count a result row, or the row of what was spent before."""
        tokens = row.get("paid_tokens")
        self.calls += row["calls"]
        self.prompt_tokens += tokens[0] if tokens else 0
        self.completion_tokens += tokens[1] if tokens else 0
        self.bounded += row.get("bounded", 0)
        self.untold += row.get("untold", int(row["calls"] > 0 and tokens is None))

    @property
    def dollars(self) -> float | None:
        """None without a price. See `exactness` for what they are."""
        return None if self.price is None else self.price.of(self.prompt_tokens, self.completion_tokens)

    @property
    def shown(self) -> str:
        """The dollars as progress shows them; nothing without a price."""
        return "" if self.dollars is None else f"${self.dollars:.4f}"

    @property
    def exactness(self) -> str:
        """Words before tokens and dollars: "at least " where some are unknown, "at most " where some are bounds."""
        return "at least " if self.untold else "at most " if self.bounded else ""


def spent_before(rows: Mapping[str, Row], again: Iterable[str]) -> Row:
    """The row that keeps what the rows `again` have cost, which are to be replaced, and what it kept before.

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
        "bounded": total.bounded,
        "untold": total.untold,
    }
