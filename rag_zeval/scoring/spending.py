"""The spending of a run over all its attempts, summed from its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_zeval.budget import Price
from rag_zeval.files import Row
from rag_zeval.results import SPENT


@dataclass
class Spending:
    """The calls and tokens that were paid for.

    price: of the judge; None if unknown. prompt_tokens, completion_tokens: of the judge. embedded: tokens of rows that
    asked only an embedding model, which has no price. bounded: calls that did not report their tokens, which are
    counted with an upper bound. untold: rows whose tokens are unknown and not counted. unasked: rows that were not
    judged, or not completely, because the budget was spent.
    """

    price: Price | None = None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    embedded: int = 0
    bounded: int = 0
    untold: int = 0
    unasked: int = 0

    def add(self, row: Row) -> None:
        """Count a result row, or the SPENT row."""
        calls, tokens = row.get("calls", 0), row.get("paid_tokens")
        self.calls += calls
        self.embedded += row.get("embedded", 0)
        if row.get("model", "") is None:
            self.embedded += tokens[0] if tokens else 0
            return
        self.prompt_tokens += tokens[0] if tokens else 0
        self.completion_tokens += tokens[1] if tokens else 0
        self.bounded += row.get("bounded", 0)
        self.untold += row.get("untold", int(calls > 0 and tokens is None))

    @property
    def dollars(self) -> float | None:
        """The cost of the tokens; None without a price. `exactness` says whether it is a bound."""
        return None if self.price is None else self.price.of(self.prompt_tokens, self.completion_tokens)

    @property
    def shown(self) -> str:
        """The dollars, formatted for the progress display; empty without a price."""
        return "" if self.dollars is None else f"${self.dollars:.4f}"

    @property
    def exactness(self) -> str:
        """The words before tokens and dollars: "at least " if some are unknown, "at most " if some are bounds."""
        return "at least " if self.untold else "at most " if self.bounded else ""


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
        "embedded": total.embedded,
        "bounded": total.bounded,
        "untold": total.untold,
    }
