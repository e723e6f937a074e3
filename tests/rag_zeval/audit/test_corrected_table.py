"""The corrected means of systems and slices, as Python, the command, its CSV and the page show them."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import html

from rag_zeval import corrected_scores, read_judged
from rag_zeval.audit.corrected_mean import corrected_mean, labelled_sample, mean_of_labels
from rag_zeval.audit.corrected_table import HEADS, means_by_group
from rag_zeval.audit.sheet import CLAIM, Item, Label, SheetPlan, draw, plan_of, stratum_of_each
from rag_zeval.csv_files import sheet_rows
from rag_zeval.errors import InputError
from rag_zeval.files import json_line


@pytest.fixture
def labelled(result_row: Any, fill: Any, run: Any, tmp_path: Path) -> Path:
    """Results of two systems, of which people accept all claims of the first and none of the second; the sheet."""
    verdicts, rows = random.Random(3), []
    for case in range(40):
        held = [verdicts.random() < 0.6 for _ in range(4)]
        trajectory = [
            {"id": letter, "atomic_claims": [
                {"claim": f"{name} {case} {at}", "is_supported": held[at], "grounding_evidence": [], "analysis": "x"}
                for at in places
            ]}
            for letter, name, places in (("A", "yes", (0, 1)), ("B", "no", (2, 3)))
        ]  # fmt: skip
        scores = [sum(held[:2]) / 2, sum(held[2:]) / 2]
        told = {"trajectory": trajectory, "systems": ["<b>", "=new"], "answers": ["a", "b"], "scores": scores,
                "statuses": ["ok"] * 2, "slice_tag": "ab"[case % 2]}  # fmt: skip
        cost = {"calls": 1, "cached": 0, "prompt_tokens": None, "completion_tokens": None, "seconds": 1, "parts": {}}
        rows.append({**result_row(str(case), "m", 0.0, **told), **cost, "reply": None})
    (tmp_path / "r.jsonl").write_bytes(b"".join(map(json_line, rows)))
    assert run("sample", "r.jsonl", "--n", 100).returncode == 0
    claims = {row["id"]: row["claim"] for _, row in sheet_rows(tmp_path / "sheet.csv")}
    said = iter(claims[row["id"]].partition(" ")[0] for _, row in sheet_rows(tmp_path / "sheet.csv"))
    fill(tmp_path / "sheet.csv", tmp_path / "r.jsonl", lambda score: next(said))
    return tmp_path / "sheet.csv"


def test_every_output_has_the_means_of_all_systems_and_slices(labelled: Path, run: Any) -> None:
    results = labelled.parent / "r.jsonl"
    means = corrected_scores(read_judged(results), labelled)
    assert [one.answers for one in means] == ["all", "system: <b>", "system: =new", "slice: a", "slice: b"]
    everything, first, second = (one.corrected for one in means[:3])
    assert first.value and second.value and first.value > 0.9 and second.value < 0.1
    assert everything.interval and everything.interval[0] < 0.5 < everything.interval[1]

    done = run("audit", labelled, results, "--csv", "means.csv")
    for one in means:
        assert all(cell in done.stdout for cell in one.cells)
    rows = [row for _, row in sheet_rows(labelled.parent / "means.csv")]
    assert [(row["answers"], int(row["labels"])) for row in rows] == [(one.answers, one.corrected.n) for one in means]
    numbers = [float(rows[0][name]) for name in ("judge", "corrected", "corrected low", "corrected high")]
    assert numbers == [means[0].judge, everything.value, *everything.interval]
    assert rows[1]["specificity"] == ""  # people reject none of its claims

    assert run("report", results, "--html", "p.html", "--labels", labelled).returncode == 0
    [section] = html.fromstring((labelled.parent / "p.html").read_text()).xpath("//section[h2/@id='corrected']")
    assert [[cell.text_content() for cell in row] for row in section.xpath(".//tbody/tr")] == [
        one.cells for one in means
    ]
    assert [cell.text_content() for cell in section.xpath(".//th[@scope='col']")] == ["m", *HEADS[1:]]


def test_a_sheet_of_other_answers_is_refused(labelled: Path, run: Any) -> None:
    with pytest.raises(InputError, match="is not in these results"):
        corrected_scores(read_judged(labelled.parent / "r.jsonl")[:10], labelled)
    assert run("report", "r.jsonl", "--figures", "x", "--labels", labelled).returncode == 2
    corrected = [replace(one, reference="Corrected.") for one in read_judged(labelled.parent / "r.jsonl")]
    with pytest.raises(InputError, match="has another question or other texts to judge by in these results"):
        corrected_scores(corrected, labelled)


def test_why_the_error_rates_give_another_mean_is_said() -> None:
    """The labelled claims that the judge passes are of long answers: of these claims few count, of all most do."""
    passed = [bool(at % 2) or at >= 40 for at in range(400)]
    items = [
        Item(f"r{at}", str(at), "(none)", "", (), "", "", float(one), "", 0.1 if one and at < 40 else 1.0)
        for at, one in enumerate(passed)
    ]
    labels = {f"r{at}": Label(float(at % 2 if at % 10 > 1 else 1 - at % 2), "", "") for at in range(40)}
    [found] = means_by_group({"all": items}, *as_drawn(items, labels))
    assert found.error_rates and found.corrected.interval
    assert (found.error_rates.mean.value or 0) > found.corrected.interval[1]
    [rates, why] = found.notes
    assert rates.startswith("sensitivity 0.") and "0.655 on the labelled claims and 0.948 on all" in why
    [alike] = means_by_group({"all": items[:40]}, *as_drawn(items[:40], labels))
    assert alike.difference is None and len(alike.notes) == 1


def test_rows_of_which_no_label_tells_anything_are_counted() -> None:
    """A person who cannot judge one slice leaves all of its rows empty."""
    items = [
        Item(f"r{at}", str(at), "ab"[at % 3 // 2], "", (), "", "", float(at % 4 > 0), "", 1.0) for at in range(120)
    ]
    labels = {item.id: Label(1.0, "", "") for item in items if item.slice == "a" and int(item.case) < 60}
    plan = plan_of("m", CLAIM, draw(items, 120, 0), stratum_of_each(items))
    [found] = means_by_group({"all": items}, plan.weigh(labels), plan)
    assert found.notes == [found.unlabelled] and str(found.unlabelled).startswith("40 of 120 claims are in")
    labels |= {item.id: Label(1.0, "", "") for item in (items[2], items[8])}  # the two bands of slice b
    assert [one.notes for one in means_by_group({"all": items}, plan.weigh(labels), plan)] == [[]]
    later = [*items, *(replace(item, id=f"later {item.id}") for item in items[:30])]
    [grown] = means_by_group({"all": later}, plan.weigh(labels), plan)
    assert str(grown.unlabelled).startswith("30 of 150 claims are new since the sheet was drawn, or are in")


def as_drawn(items: Sequence[Item], labels: Mapping[str, Label]) -> tuple[dict[str, Label], SheetPlan]:
    """The labels and the plan of a sheet whose rows, all labelled, were drawn at random from their strata."""
    chosen = [item for item in items if item.id in labels]
    sizes, rows = (Counter(item.stratum for item in some) for some in (items, chosen))
    drawn = [(item, rows[item.stratum] / sizes[item.stratum]) for item in chosen]
    plan = plan_of("m", CLAIM, drawn, stratum_of_each(items))
    return plan.weigh(labels), plan


def test_a_system_gets_the_mean_that_people_would_give_it_from_a_sheet_of_two() -> None:
    """200 sheets of 80 rows, a fifth of them left empty. Of two systems, the first has few items in most strata.

    Its answers there are bad, and most sheets have no row of them. A weight by its own items of a stratum, in place of
    all items of it, would give it a mean of 0.80 in place of 0.70.
    """
    chance = np.random.default_rng(0)
    items, truth = [], {}
    for at in range(600):  # 15 slices of 40 items
        of_first = at < 120 or at % 40 < 4
        true = chance.random() < (0.2 if of_first and at >= 120 else 0.9)
        verdict = true if chance.random() < 0.8 else not true
        system = "first" if of_first else "second"
        items.append(Item(f"r{at}", str(at), f"s{at // 40}", "", (), "", "", float(verdict), "", 1.0, system))
        truth[f"r{at}"] = float(true)
    part = [item for item in items if item.system == "first"]
    expected = np.mean([truth[item.id] for item in part])
    means, covered = [], []
    for seed in range(200):
        drawn = draw(items, 80, seed)
        labels = {item.id: Label(truth[item.id], "", "") for item, _ in drawn if chance.random() < 0.8}
        sample = labelled_sample(part, plan_of("m", CLAIM, drawn, stratum_of_each(items)).weigh(labels))
        assert sample is not None
        means.append(mean_of_labels(sample, 0.0, added=False).value or 0.0)
        low, high = corrected_mean(sample).interval or (0.0, 1.0)
        covered.append(low <= expected <= high)
    assert abs(np.mean(means) - expected) < 3 * np.std(means) / 200**0.5
    assert np.mean(covered) >= 0.93
