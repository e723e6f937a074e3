"""A table: a title, heads and lines of cells, whatever it is written as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TEXT_HEADS = {  # numbers are set to the right
    *"benchmark run method setting candidates scorer model metric minus".split(),
    "data set",
}
NONE = "-"


@dataclass(frozen=True)
class Table:
    """A title, heads and lines of cells; columns of text stand before those of numbers."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]

    @property
    def text_columns(self) -> int:
        """How many columns of text stand before the numbers."""
        return sum(head in TEXT_HEADS for head in self.heads)
