"""The number of rows that is planned, against audits that label so many."""

import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from rag_zeval.audit.corrected_mean import corrected_mean, labelled_sample, labels_alone
from rag_zeval.audit.planning import by_agreement, by_pilot, chance_to_find, rows_needed
from rag_zeval.audit.sheet import CLAIM, Item, Label, draw, read_items
from rag_zeval.csv_files import sheet_rows


def claims(n: int, supported: float, random: Random) -> list[Item]:
    """Claims of cases of three."""
    return [
        Item(f"r{at}", str(at // 3), "(none)", "", (), "", "", float(random.random() < supported), "", 1 / 3)
        for at in range(n)
    ]


def test_audits_reach_the_width_that_a_pilot_planned() -> None:
    random = Random(1)
    items = claims(900, 0.7, random)
    truth = {item.id: item.score if random.random() < 0.85 else 1 - item.score for item in items}
    pilot = {item.id: Label(truth[item.id], "", "") for item, _ in draw(items, 100, seed=100)}
    guess = by_pilot(CLAIM, items, pilot)
    planned = rows_needed(items, guess, width=0.15)
    assert planned.rows is not None
    widths = []
    for seed in range(40):
        labels = {item.id: Label(truth[item.id], "", "", 1 / p) for item, p in draw(items, planned.rows, seed)}
        sample = labelled_sample(items, labels)
        assert sample is not None
        low, high = corrected_mean(sample).interval or (0.0, 1.0)
        widths.append(high - low)
    assert np.mean(widths) == pytest.approx(0.15, rel=0.2)
    without = rows_needed(items, guess, 0.15, labels_alone).rows
    assert without is None or without > planned.rows


def test_what_all_rows_cannot_reach_is_said() -> None:
    found = rows_needed(claims(30, 0.5, Random(0)), by_agreement(CLAIM, 0.6), width=0.05)
    assert found.rows is None and found.width > 0.05


@pytest.mark.parametrize(("difference", "width"), [(0.08, 0.14), (0.1, 0.1), (0.15, 0.1)])
def test_the_chance_to_find_a_difference_is_that_of_simulated_comparisons(difference: float, width: float) -> None:
    """Of two means whose 95% intervals have this width: how often does the interval of their difference leave out 0?"""
    spread = width / (2 * 1.96)
    first, second = np.random.default_rng(0).normal([0.0, difference], spread, size=(100_000, 2)).T
    assert np.mean(second - first > 1.96 * spread * 2**0.5) == pytest.approx(
        chance_to_find(difference, width), abs=0.01
    )


def test_the_command_plans_and_draws_more_without_losing_a_label(write_results: Any, fill: Any, run: Any) -> None:
    results: Path = write_results(cases=150)
    shown = run("sample", results, "--width", 0.2).stdout
    planned = int(re.findall(r"corrected score │ (\d+) of", shown)[0])
    assert "finds a true difference of 0.100 in 28%, 0.200 in 79%, 0.300 in 99% of comparisons" in shown
    assert not list(results.parent.glob("*.csv"))
    assert run("sample", results, "--n", planned // 2).returncode == 0
    sheet = results.parent / "sheet.csv"
    fill(sheet, results, lambda score: "yes" if score else "no", note="seen")
    assert "as they labelled these" in run("sample", results, "--width", 0.2, "--more", "sheet.csv").stdout
    assert run("sample", results, "--more", "sheet.csv", "--n", 20).returncode == 2  # not over itself
    assert run("sample", results, "--more", "sheet.csv", "--n", 20, "--out", "more.csv").returncode == 0
    before, after = (
        {row["id"]: row for _, row in sheet_rows(results.parent / name)} for name in ("sheet.csv", "more.csv")
    )
    assert len(after) == len(before) + 20
    assert all(after[id_] == row for id_, row in before.items())
    assert {row["label"] for id_, row in after.items() if id_ not in before} == {""}
    assert run("audit", "more.csv", results).returncode == 0
    results = write_results(cases=200)
    claims = len(read_items(results, "claim").items)
    grown = run("sample", results, "--more", "more.csv", "--n", 20, "--out", "grown.csv").stdout
    new = claims - len(read_items(write_results(cases=150), "claim").items)
    assert f"{new} claims are new since more.csv was drawn, and " in grown
    assert run("sample", results, "--width", 1.5).returncode == 2
