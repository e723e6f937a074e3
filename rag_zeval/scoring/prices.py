"""The prices of judges, from a price list that the user gives."""

import math
from collections.abc import Mapping
from pathlib import Path

from rag_zeval.budget import Account, Budget, Price
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, check_object, read_json
from rag_zeval.models.open import check_spec, folder_of
from rag_zeval.scoring.spending import UNNAMED
from rag_zeval.text import one_line

HIGHEST = 1e6  # dollars for a million tokens
PRICE_FIELDS: FieldTypes = {"prompt": (int, float), "completion": (int, float)}


def read_prices(path: str | Path) -> dict[str, Price]:
    """Read a file of prices in dollars per million tokens: `{MODEL: {"prompt": 0.15, "completion": 0.6}}`.

    Raises InputError naming file, model and field for anything else.
    """
    prices = {}
    for model, entry in read_json(path).items():
        place = f"{path}: model '{one_line(model)}'"
        check_object(place, entry, PRICE_FIELDS)
        dollars = [entry[name] for name in PRICE_FIELDS]
        if not all(0 <= price <= HIGHEST for price in dollars):
            raise InputError(f"{place}: a price must be from 0 to {HIGHEST:,.0f}, found {dollars}")
        prices[model] = Price(*map(float, dollars))
    return prices


def price_of(spec: str | None, prices: Mapping[str, Price]) -> Price | None:
    """Return the price listed for a spec or for its model's name at the endpoint; None if neither is listed."""
    if spec is None:
        return None
    endpoint = check_spec(spec)
    return prices.get(spec) or (prices.get(endpoint[0]) if endpoint else None)


def prices_of_rows(spec: str | None, prices: Mapping[str, Price]) -> dict[str, Price]:
    """Return the prices of the judges of a result file, by the names that its rows have, for the run of a judge.

    Rows that name no judge have the price of this one. Empty without a price for this judge.
    """
    price = price_of(spec, prices)
    if spec is None or price is None:
        return {}
    endpoint = check_spec(spec)
    names = [endpoint[0]] if endpoint else [spec.removeprefix("transformers:"), folder_of(spec) or spec]
    return {**prices, **dict.fromkeys([UNNAMED, *names], price)}


def open_account(model: str | None, price: Price | None, max_cost: float | None) -> Account | None:
    """Return the account that pays for the calls to the judge; None without a limit in dollars.

    Raises InputError if the limit is no positive number, or if the model has no price or is behind no endpoint.
    """
    if max_cost is None:
        return None
    if not 0 < max_cost < math.inf:
        raise InputError(f"--max-cost is {max_cost}, but must be more than 0 dollars")
    if price is None:
        raise InputError(f"--max-cost needs the price of {model or 'the judge'}: add --prices with a file that has it")
    if check_spec(str(model)) is None:
        raise InputError(f"--max-cost works for endpoints only, and {model} is not one: remove --max-cost")
    return Account(Budget(max_cost), price)
