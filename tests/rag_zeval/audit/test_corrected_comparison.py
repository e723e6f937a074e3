"""Comparisons by the scores that people would give: simulated systems, judges and people; and the commands."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_zeval.audit.corrected_comparison import LabelledSheet, correct, corrected_means
from rag_zeval.audit.sheet import Label, draw, items_of, plan_of, stratum_of_each
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.decisions.comparison import compare_sides
from rag_zeval.decisions.gate import Bar, Limits, bar_checks, decide, passed
from rag_zeval.decisions.sides import Side
from rag_zeval.decisions.wording import notes
from rag_zeval.errors import InputError
from rag_zeval.files import json_line
from rag_zeval.results import Judged

CASES = 400
Bias = Callable[[int], float]  # by a claim's answer: how much more often the judge passes a false claim of it


def side(name: str, support: float, bias: Bias, random: np.random.Generator) -> tuple[Side, dict[str, bool]]:
    """A system's judged answers, and of each claim whether it is true."""
    judged, truth = {}, {}
    for case in range(CASES):
        claims = []
        for number in range(1 + case % 4):
            text = f"{name} {case} {number}"
            truth[text] = bool(random.random() < support)
            passes = 0.9 if truth[text] else 0.1 + bias(case)
            claims.append({"claim": text, "is_supported": bool(random.random() < passes), "analysis": ""})
        score = float(np.mean([claim["is_supported"] for claim in claims]))
        judged[str(case)] = Judged(
            str(case), f"{case}?", "odd" if case % 2 else "even", name, "m", name, "r", score, "ok", tuple(claims)
        )
    return Side(name, {"m": judged}), truth


def sheet(of: tuple[Side, dict[str, bool]], n: int, seed: int) -> LabelledSheet:
    """What people say of n claims that were drawn by the plan."""
    one, truth = of
    items = [item for judged in one.judged["m"].values() for item in items_of(judged, "claim")]
    drawn = draw(items, n, seed)
    labels = {item.id: Label(float(truth[item.claim or ""]), "", "") for item, _ in drawn}
    plan = plan_of("m", "claim", drawn, stratum_of_each(items))
    return LabelledSheet(Path(one.name), plan, plan.weigh(labels))


def compared(first: Any, second: Any, seed: int, labels: int = 100) -> Any:
    sides = [first[0], second[0]]
    sheets = [sheet(first, labels, seed), sheet(second, labels, seed + 1)]
    [found] = correct([compare_sides(*sides, "m", draws=500)], sides, sheets)
    return found


def taste(case: int) -> float:
    return 0.7 if case % 4 >= 2 else 0.0  # long answers


def plain(case: int) -> float:
    return 0.0


def test_a_gain_that_is_the_judges_taste_is_told_from_a_true_one() -> None:
    random, called, confirmed, true_gain = np.random.default_rng(0), 0, 0, 0
    for seed in range(30):
        old, longer, better = (side(*one, random) for one in (("a", 0.7, plain), ("b", 0.7, taste), ("c", 0.85, plain)))
        found = compared(old, longer, seed)
        called += found.overall.p <= 0.05 and found.overall.change.value > 0
        confirmed += found.corrected[0].p <= 0.05
        real = compared(old, better, seed, labels=300).corrected[0]
        true_gain += real.p <= 0.05 and real.change.low <= 0.15 <= real.change.high
    assert called >= 29  # the judge alone calls it a gain
    assert confirmed <= 5  # of 30, at 5%: more in 3 of 1,000 cases
    assert true_gain >= 25


def test_a_change_that_people_see_in_the_other_direction_is_said() -> None:
    random = np.random.default_rng(0)
    found = compared(side("a", 0.8, plain, random), side("b", 0.4, lambda case: 0.85, random), 1)
    assert found.overall.change.low > 0 > found.corrected[0].change.high
    assert notes(found)[-1] == "the judge and people's labels see opposite changes: trust the labels"


def test_the_gate_decides_on_the_corrected_scores() -> None:
    random = np.random.default_rng(1)
    flattered, honest = side("a", 0.7, taste, random), side("b", 0.7, plain, random)
    found = compared(flattered, honest, 0)
    assert not passed(decide([replace(found, corrected=())], Limits()))
    checks = decide([found], Limits())
    assert passed(checks)
    assert [check.name for check in checks if check.difference] == ["all", "slice: even", "slice: odd"]
    assert all("labels" in check.reason for check in checks if check.difference)


def test_what_no_label_stands_for_is_said_and_warned_of() -> None:
    """A person who cannot judge one slice of B leaves all of its rows empty."""
    random = np.random.default_rng(3)
    first, second = side("a", 0.7, plain, random), side("b", 0.7, plain, random)
    sheets = [sheet(first, 100, 0), sheet(second, 100, 1)]
    items = [item for judged in second[0].judged["m"].values() for item in items_of(judged, "claim")]
    even = {item.id: label for item in items if item.slice == "even" and (label := sheets[1].labels.get(item.id))}
    sheets[1] = replace(sheets[1], labels=sheets[1].plan.weigh(even))
    sides = [first[0], second[0]]
    [found] = correct([compare_sides(*sides, "m", draws=100)], sides, sheets)
    odd = sum(item.slice == "odd" for item in items)
    said = f"labels of B: {odd} of {len(items)} claims are in a score band and slice without any label. The figures"
    assert [line.startswith(said) for line in notes(found)].count(True) == 1
    [warned] = [check for check in decide([found], Limits()) if check.name == "labels"]
    assert (warned.outcome, warned.reason.startswith(said)) == ("warning", True)
    corrected = corrected_means(second[0], ["m"], sheets[1:], alone=True)
    [labels, *_] = bar_checks(second[0], [Bar("m", 0.1, least=True)], corrected, Limits(), alone=True)[1:]
    assert (labels.name, labels.outcome, labels.reason) == ("labels", "warning", warned.reason)


def test_labels_of_one_side_or_of_another_file_are_refused() -> None:
    random = np.random.default_rng(2)
    first, second, other = (side(name, 0.7, plain, random) for name in "abc")
    sides = [first[0], second[0]]
    comparisons = [compare_sides(*sides, "m", draws=100)]
    for sheets, said in (
        ([sheet(first, 20, 0)], "nothing of its errors on b: draw and label a sheet of b too"),
        ([sheet(first, 20, 0), sheet(second, 20, 0), sheet(other, 20, 0)], "c: was drawn from neither"),
        ([sheet(first, 20, 0), sheet(first, 20, 1), sheet(second, 20, 0)], "both of a"),
    ):
        with pytest.raises(Exception, match=said):
            correct(comparisons, sides, sheets)
    assert correct(comparisons, sides, []) == comparisons


def test_a_sheet_is_of_the_version_that_it_was_drawn_from() -> None:
    """Two versions of one system share half of their answers. The labels of those say nothing about the other half."""
    versions: list[tuple[Side, dict[str, bool]]] = []
    for name in ("old", "new"):
        judged, truth = {}, {}
        for case in map(str, range(100)):
            text = case if int(case) % 2 else f"{name} {case}"
            truth[text] = text != f"new {case}"
            claims = ({"claim": text, "is_supported": True, "analysis": ""},)
            judged[case] = Judged(case, f"{case}?", None, "answers", "m", text, "r", 1.0, "ok", claims)
        versions.append((Side(name, {"m": judged}), truth))
    sides = [one for one, _ in versions]
    comparisons = [compare_sides(*sides, "m", draws=100)]
    old, new = sheets = [sheet(one, 60, 0) for one in versions]
    assert set(old.labels) & set(new.labels)
    [found] = correct(comparisons, sides, sheets)
    first, second = found.corrected[0].first, found.corrected[0].second
    assert first and second and first.value > 0.95 and abs(second.value - 0.5) < 0.1
    assert corrected_means(sides[1], ["m"], sheets) == {"m": (second, 60, None)}
    for alone, other in ((old, "new"), (new, "old")):
        with pytest.raises(Exception, match=f"nothing of its errors on {other}"):
            correct(comparisons, sides, [alone])
    unchanged = {id_: label for id_, label in old.labels.items() if id_ in new.labels}
    halves, strata = dict.fromkeys(unchanged, 0.5), dict.fromkeys(unchanged, "d")
    rows = replace(old.plan, probabilities=halves, strata=strata, kept=True)
    kept = LabelledSheet(Path("kept"), rows, rows.weigh(unchanged))
    [by_kept] = correct(comparisons, sides, [old, kept])  # `reuse-labels` finds these for the new version
    assert by_kept.corrected


def test_labels_of_other_texts_to_judge_by_are_no_labels_of_the_same_answers() -> None:
    """Both versions give the same answers. The retriever of the second finds something else."""
    versions = [side("answers", 0.7, plain, np.random.default_rng(5)) for _ in range(2)]
    first, second = sides = [one for one, _ in versions]
    second.judged["m"].update({case: replace(one, reference="else") for case, one in second.judged["m"].items()})
    sheets = [sheet(one, 40, at) for at, one in enumerate(versions)]
    comparisons = [compare_sides(*sides, "m", draws=100)]
    with pytest.raises(InputError, match="nothing of its errors"):
        correct(comparisons, sides, sheets[:1])
    [found] = correct(comparisons, sides, sheets)
    assert found.corrected[0].n == 80
    assert [corrected_means(one, ["m"], sheets)["m"][1:] for one in (first, second)] == [(40, None)] * 2


def test_the_commands_take_the_sheets_of_both_files(run: Any, result_row: Any, tmp_path: Path) -> None:
    """People accept every claim, the judge half of those of the new version."""
    for name, held in (("old", [True, True]), ("new", [True, False])):
        claims = [
            {"claim": f"{name} {at}", "is_supported": one, "grounding_evidence": [], "analysis": "As it says."}
            for at, one in enumerate(held)
        ]
        told = {"trajectory": [{"id": "A", "atomic_claims": claims}], "slice_tag": None}
        rows = [result_row(str(case), "m", sum(held) / 2, **told) for case in range(40)]
        (tmp_path / name).write_bytes(b"".join(map(json_line, rows)))
        assert run("sample", name, "--n", 30, "--out", f"{name}.csv").returncode == 0
        rows = [{**row, "label": "yes"} for _, row in sheet_rows(tmp_path / f"{name}.csv")]
        (tmp_path / f"{name}.csv").write_text(sheet_text(list(rows[0]), [list(row.values()) for row in rows]))
    sheets = ["--labels", "old.csv", "--labels", "new.csv"]
    shown = run("compare", "old", "new", *sheets, "--html", "page.html", "--out", "numbers.json").stdout
    assert re.search(r"corrected +┃ labels", shown) and "judge's taste" in shown
    assert "judge&#39;s taste" in (tmp_path / "page.html").read_text()
    assert run("gate", "old", "new").returncode == 1
    done = run("gate", "old", "new", *sheets, "--junit", "gate.xml", "--summary", "gate.md")
    assert done.returncode == 0 and "corrected by 60 labels" in done.stdout
    assert "corrected by 60 labels" in (tmp_path / "gate.xml").read_text()
    assert "| 60 labels |" in (tmp_path / "gate.md").read_text()
    assert run("compare", "old", "new", "--labels", "old.csv").returncode == 2
    other = run("gate", "new", "--min", "m=0.6", "--labels", "old.csv")
    assert other.returncode == 2 and "--labels old.csv: was not drawn from new" in other.stderr
    first = run("gate", "new", "--min", "m=0.6", "--labels", "new.csv", "--summary", "first.md")
    assert first.returncode == 0 and re.search(r"m, at least 0.6: \S+ \S+ \S+ corrected by 30 labels\n", first.stdout)
    assert "| 30 labels |" in (tmp_path / "first.md").read_text()
