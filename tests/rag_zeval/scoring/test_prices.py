"""A price list is read or refused by file, model and field; what is not known costs nothing made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.budget import NOT_ASKED, Price
from rag_zeval.errors import InputError
from rag_zeval.models.embeddings import Embedding
from rag_zeval.models.language_model import Reply
from rag_zeval.scorers.score import costs, paid_tokens
from rag_zeval.scoring.prices import price_of, read_prices


def test_a_price_is_found_by_the_endpoints_name_or_by_the_whole_spec(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"big": {"prompt": 2, "completion": 8.5}, "folder/7b": {"prompt": 0, "completion": 0}}))
    prices = read_prices(path)
    assert price_of("openai:big@http://host/v1", prices) == Price(2.0, 8.5)
    assert price_of("folder/7b", prices) == Price(0.0, 0.0)
    assert [price_of(spec, prices) for spec in ("openai:small@http://host/v1", "elsewhere", None)] == [None] * 3


def test_what_is_paid_is_that_of_both_kinds_of_tokens_and_unknown_where_one_is() -> None:
    assert Price(2.0, 8.5).paid((1_000_000, 2_000_000)) == 19.0
    assert Price(2.0, 8.5).paid([500, 0]) == 0.001
    assert Price(2.0, 8.5).paid(None) is None


def test_all_calls_to_the_judge_are_paid_for_and_nothing_else() -> None:
    told, cached = Reply("x", "ok", 7, 5, calls=1), Reply("x", "ok", 7, 5, cached=True)
    lost, vector = Reply(None, "failed: HTTP 500", calls=6), Embedding((1.0,), "ok", 3, calls=1)
    bounded = Reply(None, "failed: no answer", calls=2, paid_tokens=(100, 50), bounded=1)
    unasked = Reply(None, NOT_ASKED)
    assert paid_tokens([told, cached, lost, vector, told, unasked]) == (14, 10)
    assert paid_tokens([told, bounded]) == (107, 55)
    assert paid_tokens([replace(bounded, calls=0)]) == (0, 0)  # the same question's other asker pays
    assert paid_tokens([told, Reply("x", "ok", 7, None, calls=1)]) is None
    assert paid_tokens([vector]) == (3, 0) and paid_tokens([]) == (0, 0)
    counted = costs([told, bounded, unasked])
    assert (counted["bounded"], counted["unasked"], counted["failures"], counted["final"]) == (1, 1, 2, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "prices.json:1: not valid JSON"),
        ({"m": 3}, "model 'm': expected a JSON object, found int"),
        ({"m": {"prompt": 1}}, "model 'm': field 'completion' is missing"),
        ({"m": {"prompt": -1, "completion": 1}}, "model 'm': a price must be from 0 to 1,000,000, found [-1, 1]"),
        ({"m": {"prompt": 1, "completion": float("nan")}}, "not valid JSON: NaN is not a number"),
    ],
)
def test_a_bad_list_is_one_line(content: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as error:
        read_prices(path)
    assert str(error.value).startswith(f"{path}:") and said in str(error.value)
