"""What is drawn: its strata and probabilities, what they are good for, and what they do not tell."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.audit.items import Item, allocate, draw, read_items
from rag_zeval.errors import InputError


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 300))
def test_every_stratum_gets_a_row_and_the_others_are_in_proportion(sizes: list[int], more: int) -> None:
    n = len(sizes) + more
    rows = allocate(sizes, n)
    assert sum(rows) == min(n, sum(sizes))
    left = sum(sizes) - len(sizes)
    for got, size in zip(rows, sizes, strict=True):
        assert 1 <= got <= size
        exact = min(more, left) * (size - 1) / left if left else 0
        assert abs(got - 1 - exact) < 1


def population(sizes: dict[tuple[float, str], int]) -> list[Item]:
    """Items of these scores and slices, two to a case."""
    kinds = [kind for kind, size in sizes.items() for _ in range(size)]
    return [
        Item(f"r{number:05}", str(number // 2), slice_, "q", (("reference", "r"),), "a", "c", score, "")
        for number, (score, slice_) in enumerate(kinds)
    ]


def test_weighted_by_their_probabilities_rows_estimate_the_share_without_bias() -> None:
    """People call supported what the judge does not in the small strata above all, so that plain shares are off."""
    items = population({(1.0, "a"): 300, (0.0, "a"): 40, (1.0, "b"): 60, (0.0, "b"): 5, (0.0, "c"): 1})
    says = random.Random(3)
    supported = {item.id: says.random() < {"a": 0.9, "b": 0.3, "c": 1.0}[item.slice] for item in items}
    truth = sum(supported.values()) / len(items)
    weighted, plain = [], []
    for seed in range(600):
        rows = [(supported[item.id], 1 / probability) for item, probability in draw(items, 12, seed)]
        assert sum(weight for _, weight in rows) == pytest.approx(len(items))
        weighted.append(sum(said * weight for said, weight in rows) / len(items))
        plain.append(sum(said for said, _ in rows) / len(rows))
    error = np.std(weighted) / len(weighted) ** 0.5
    assert abs(np.mean(weighted) - truth) < 4 * error
    assert abs(np.mean(plain) - truth) > 6 * error


def test_each_item_is_drawn_with_the_probability_that_is_said() -> None:
    items = population({(1.0, "a"): 20, (0.4, "a"): 7, (0.0, "b"): 2})
    drawn = [draw(items, 9, seed) for seed in range(1_000)]
    times = Counter(item.id for rows in drawn for item, _ in rows)
    said = {item.id: probability for rows in drawn for item, probability in rows}
    for item in items:
        expected = said[item.id]
        assert abs(times[item.id] / 1_000 - expected) <= 4.5 * (expected * (1 - expected) / 1_000) ** 0.5


def test_a_sample_repeats_and_another_seed_draws_another() -> None:
    items = population({(1.0, "a"): 50, (0.0, "a"): 50})
    assert draw(items, 10, 1) == draw(items[::-1], 10, 1) != draw(items, 10, 2)


def test_fewer_rows_than_strata_are_refused() -> None:
    with pytest.raises(InputError, match="--n 1 is too small: there are 2 strata"):
        draw(population({(1.0, "a"): 5, (0.0, "a"): 5}), 1, 0)


def test_an_id_goes_with_its_text_and_not_with_the_verdict(write_results: Callable[..., Path]) -> None:
    before = read_items(write_results(), "claim").items
    flipped = read_items(write_results(support=lambda rng: rng.random() < 0.2), "claim").items
    assert [item.id for item in before] == [item.id for item in flipped]
    assert [item.score for item in before] != [item.score for item in flipped]
    path = write_results()
    path.write_text(path.read_text().replace("Claim 0.0.", "Claim 0.0"))
    assert [item.id for item in read_items(path, "claim").items][1:] == [item.id for item in before][1:]
    assert read_items(path, "claim").items[0].id != before[0].id


def test_the_only_metric_with_claims_need_not_be_named(write_results: Callable[..., Path]) -> None:
    path = write_results(cases=2)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    other = {**rows[0], "id": "0|bleu", "metric": "bleu", "trajectory": None, "scores": [0.5]}
    failed = {**rows[1], "id": "9|rag_zeval", "case": "9", "trajectory": None, "scores": [None]}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, other, failed]))
    found = read_items(path, "claim")
    assert (found.metric, found.without) == ("rag_zeval", 1)
    assert {item.case for item in found.items} == {"0", "1"}
    with pytest.raises(InputError, match="--metric must be one of rag_zeval, bleu"):
        read_items(path, "answer")
    assert [item.score for item in read_items(path, "answer", "bleu").items] == [0.5]
    with pytest.raises(InputError, match="--metric must be one of rag_zeval; found bleu"):
        read_items(path, "claim", "bleu")


@pytest.mark.parametrize(
    ("change", "unit", "message"),
    [
        ({"scores": [3.0]}, "answer", "case '0': rag_zeval is 3, must be from 0 to 1"),
        ({"trajectory": [{"id": "A", "atomic_claims": [{"claim": "c"}]}]}, "claim", "'is_supported' is missing"),
        ({"trajectory": None}, "claim", "no metric in it has claims"),
        ({"trajectory": [{"id": "A", "atomic_claims": []}]}, "claim", "no answer has a claim by rag_zeval"),
        ({"scores": [None]}, "answer", "no answer has a score by rag_zeval"),
    ],
)
def test_what_cannot_be_labelled_is_named(
    write_results: Callable[..., Path], change: dict[str, object], unit: str, message: str
) -> None:
    path = write_results(cases=1)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}) + "\n")
    with pytest.raises(InputError, match=message) as error:
        read_items(path, unit)
    assert str(error.value).startswith(f"{path}:") and "\n" not in str(error.value)
