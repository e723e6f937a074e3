"""What judging costs, by a price list that the user gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from eval_benchmarks.benchmark import field
from rag_zeval.errors import InputError
from rag_zeval.models.language_model import check_spec
from rag_zeval.scorers.score import Scored

MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens of prompts and of replies."""

    prompt: float
    completion: float

    def paid(self, scored: Scored) -> float | None:
        """Dollars for the replies that an example was asked for; None where one did not tell its tokens."""
        if scored.paid_tokens is None:
            return None
        prompt, completion = scored.paid_tokens
        return (self.prompt * prompt + self.completion * completion) / MILLION


def read_prices(path: str | Path) -> dict[str, Price]:
    """`{MODEL: {"prompt": 0.15, "completion": 0.6}}`, in dollars per million tokens.

    Raises InputError naming file, model and field for anything else.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object of models, found {type(content).__name__}")
    prices = {}
    for model, entry in content.items():
        given = [field(f"{path}: model '{model}'", entry, name, (int, float)) for name in ("prompt", "completion")]
        if not all(0 <= price < float("inf") for price in given):
            raise InputError(f"{path}: model '{model}': a price must be 0 or more, found {given}")
        prices[model] = Price(*map(float, given))
    return prices


def price_of(spec: str | None, prices: dict[str, Price]) -> Price | None:
    """The price of the model that a spec names, by the name its endpoint knows or by the whole spec."""
    if spec is None:
        return None
    endpoint = check_spec(spec)
    return prices.get(spec) or (prices.get(endpoint[0]) if endpoint else None)
