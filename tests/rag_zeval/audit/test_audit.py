"""`rag-zeval sample` and `rag-zeval audit`, from result rows to an exit status."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.audit.agreement import Statistic
from rag_zeval.audit.labelled_results import LabelledResults
from rag_zeval.audit.printing import conclusion
from rag_zeval.audit.sheet import CLAIM, Item, Label, SheetPlan, read_items
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.files import json_line, read_json, read_jsonl, write_json


def kappa_of(shown: str) -> float:
    return float(re.findall(r"Cohen's kappa (-?[\d.]+)", shown)[-1])


COIN = random.Random(5)


@pytest.mark.parametrize(
    ("say", "status", "bounds"),
    [
        (lambda score: "TRUE" if score else "Unsupported", 0, (1, 1)),
        (lambda score: COIN.choice(["yes", "no"]), 1, (-0.35, 0.35)),
        (lambda score: "0" if score else " Supported ", 1, (-1, -0.2)),
    ],
    ids=["perfect", "chance", "inverted"],
)
def test_the_exit_status_is_about_kappa(
    say: Callable[[float], str],
    status: int,
    bounds: tuple[float, float],
    write_results: Any,
    fill: Any,
    run: Any,
    tmp_path: Path,
) -> None:
    results = write_results()
    assert run("sample", results, "--n", 60).returncode == 0
    fill(tmp_path / "sheet.csv", results, say)
    done = run("audit", "sheet.csv", results)
    assert done.returncode == status, done.stderr
    assert bounds[0] <= kappa_of(done.stdout) <= bounds[1]
    assert run("audit", "sheet.csv", results, "--fail-below", -1).returncode == 0


def test_what_is_printed_is_weighted_by_what_rows_stand_for(write_results: Any, run: Any, tmp_path: Path) -> None:
    """Kappa by hand: a label stands for as many claims as its stratum has for each label; empty ones are left out."""
    results = write_results(cases=150)
    run("sample", results, "--n", 40)
    items = {item.id: item for item in read_items(results, "claim").items}
    noise, said = random.Random(2), {}
    for number, (_, row) in enumerate(sheet_rows(tmp_path / "sheet.csv")):
        answer = int(items[row["id"]].score) ^ (noise.random() < 0.2)
        said[row["id"]] = str(answer) if number % 8 else " "
    rows = [[id_, label] for id_, label in said.items()]
    table = dict.fromkeys([(a, b) for a in (0, 1) for b in (0, 1)], 0.0)
    labelled = [items[id_] for id_, label in said.items() if label != " "]
    for item in labelled:
        stands_for, of = ([one.stratum for one in some].count(item.stratum) for some in (items.values(), labelled))
        table[int(item.score), int(said[item.id])] += stands_for / of
    (tmp_path / "sheet.csv").write_text(sheet_text(["id", "label"], rows))
    total = sum(table.values())
    judge, people = (sum(w for cell, w in table.items() if cell[at]) / total for at in (0, 1))
    chance = judge * people + (1 - judge) * (1 - people)
    done = run("audit", "sheet.csv", results)
    expected = ((table[0, 0] + table[1, 1]) / total - chance) / (1 - chance)
    assert kappa_of(done.stdout) == pytest.approx(expected, abs=5e-4)
    assert "35 claims labelled" in done.stdout and "5 rows of the sheet not labelled" in done.stdout
    assert len(re.findall(r"^r[0-9a-f]{12} ", done.stdout, re.MULTILINE)) == int(
        re.findall(r"(\d+) disagreements", done.stdout)[0]
    )


def test_each_label_counts_in_the_slice_of_its_row() -> None:
    tags = ["a", "a", "a\0", "", "", ""]  # NumPy's own texts end before a NUL
    items = [Item(f"r{at}", str(at), tag, "", (), "", "", 1.0, "") for at, tag in enumerate(tags)]
    labels = {item.id: Label(1.0, "", "") for item in items}
    found = LabelledResults(SheetPlan("m", CLAIM, {}, {}), items, labels, 0.5).agreement_by_slice()
    assert [(name, raw.n) for name, raw, _ in found] == [("", 3), ("a", 2), ("a\0", 1)]


def test_a_long_id_takes_no_memory_for_the_others(write_results: Any, fill: Any, run: Any, run_measured: Any) -> None:
    results = write_results(cases=200)
    long = "long " * 60_000
    rows = [{**row, "case": f"{row['case']} {long}", "slice_tag": long} for row in read_jsonl(results)[:1]]
    results.write_bytes(b"".join(map(json_line, [*rows, *read_jsonl(results)[1:]])))
    run("sample", results, "--n", 300)
    fill(results.parent / "sheet.csv", results, lambda score: "yes" if score else "no")
    _, peak = run_measured("audit", "sheet.csv", results)
    assert peak < 300  # an array of 500 such texts has 570 MiB


def test_grades_of_answers(write_results: Any, fill: Any, run: Any) -> None:
    results = write_results()
    run("sample", results, "--unit", "answer", "--out", "answers.csv", "--n", 40)
    sheet = results.parent / "answers.csv"
    assert "claim" not in sheet.read_text().splitlines()[0]
    fill(sheet, results, lambda score: str(1 + round(4 * score)), "answer")
    done = run("audit", sheet, results)
    assert done.returncode == 0 and kappa_of(done.stdout) == 1
    assert re.search(r"quadratic weights\W+1\.000", done.stdout)
    fill(sheet, results, lambda score: "yes" if score >= 0.8 else "no", "answer")
    done = run("audit", sheet, results, "--threshold", 0.8)
    assert kappa_of(done.stdout) == 1 and "quadratic" not in done.stdout


def test_the_human_ceiling(write_results: Any, fill: Any, run: Any, tmp_path: Path) -> None:
    results = write_results(cases=120)
    run("sample", results, "--n", 200)
    noise = random.Random(1)
    fill(tmp_path / "sheet.csv", results, lambda score: "yes" if (score == 1) != (noise.random() < 0.25) else "no")
    second = tmp_path / "second.csv"
    second.write_text((tmp_path / "sheet.csv").read_text())
    both = run("audit", "sheet.csv", results, second)
    assert "the second person 1.000" in both.stdout and "the judge is below the human ceiling" in both.stdout
    fill(second, results, lambda score: "yes" if score else "no")  # the second person says what the judge does
    alike = run("audit", "sheet.csv", results, second)
    assert "these rows show no difference between the judge and the second person" in alike.stdout
    fill(tmp_path / "sheet.csv", results, lambda score: "yes")
    fill(second, results, lambda score: "yes")
    assert "a kappa is undefined" in run("audit", "sheet.csv", results, second).stdout
    fill(second, results, lambda score: "")
    none = run("audit", "sheet.csv", results, second)
    assert (none.returncode, "shares no labelled row" in none.stderr) == (2, True)


def test_the_last_line_prints_kappa_with_the_digits_that_decide() -> None:
    said = conclusion(Statistic(0.69996, (0.5, 0.70004), 100), 0.7)
    assert said == "Cohen's kappa 0.69996 [0.50000, 0.70004] is below 0.7, which the interval includes"


def test_disagreements_are_shown_as_text_and_one_class_decides_nothing(
    write_results: Any, fill: Any, run: Any, tmp_path: Path
) -> None:
    results = write_results(cases=6, support=lambda _: True)
    hostile = "\x1b[2J[bold]x[/bold]\u202e=1+1"
    spoilt = results.read_text().replace("As it says.", json.dumps(hostile)[1:-1]).replace('"law"', json.dumps(hostile))
    results.write_text(spoilt)
    run("sample", results)
    fill(tmp_path / "sheet.csv", results, lambda score: "no", note=f"'tis not {hostile}")
    done = run("audit", "sheet.csv", results)
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert "judge: supported; [2J[bold]x[/bold] =1+1" in done.stdout
    assert "person: no; 'tis not [2J[bold]x[/bold] =1+1" in done.stdout
    fill(tmp_path / "sheet.csv", results, lambda score: "yes")
    done = run("audit", "sheet.csv", results, "--fail-below", -1)
    assert (done.returncode, "kappa is undefined" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (',"no",', ',"maybe",', ":3: field 'label': 'maybe' (row ID), must be supported or not supported"),
        (',"no",', ',"2",', ":3: field 'label': '2' (row ID)"),
        ("ID", "r0", ":3: unknown id 'r0': this row was not drawn"),
        ("ID", "FIRST", ":3: duplicate id 'FIRST'"),
        ('"label"', '"Label"', ":2: field 'label' is missing"),
    ],
)
def test_a_bad_row_is_named(old: str, new: str, place: str, write_results: Any, run: Any, tmp_path: Path) -> None:
    results = write_results()
    run("sample", results)
    first, second = [row["id"] for _, row in sheet_rows(tmp_path / "sheet.csv")][:2]

    def named(text: str) -> str:
        return text.replace("FIRST", first).replace("ID", second)

    rows = [[id_, "no", ""] for id_ in (first, second)]
    content = sheet_text(["id", "label", "note"], rows).splitlines(keepends=True)
    at = 0 if old == '"label"' else 2
    content[at] = content[at].replace(named(old), named(new))
    (tmp_path / "sheet.csv").write_text("".join(content), newline="")
    done = run("audit", "sheet.csv", results)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: sheet.csv{named(place)}") and done.stderr.count("\n") == 1


def test_what_cannot_be_compared_is_refused(write_results: Any, fill: Any, run: Any, tmp_path: Path) -> None:
    def refused(message: str, *words: object) -> None:
        done = run("audit", *words)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr

    results, sheet = write_results(), tmp_path / "sheet.csv"
    run("sample", results)
    refused("column 'label' is empty", sheet, results)
    for option in ("--fail-below", "--threshold"):
        refused(f"{option} is nan", sheet, results, option, "nan")
    (tmp_path / "copy.csv").write_bytes(sheet.read_bytes())
    refused("copy.csv.json: is missing", "copy.csv", results)
    refused("error: none.csv: is missing: `rag-zeval sample` writes it", "none.csv", results)
    fill(sheet, results, lambda score: "yes")
    results.write_text(results.read_text().replace("Claim 1", "A claim 1"))
    refused("name the file that the sheet was drawn from", sheet, results)
    plan = read_json(tmp_path / "sheet.csv.json")
    next(iter(plan["rows"].values()))["probability"] = 0
    write_json(tmp_path / "sheet.csv.json", plan)
    refused("field 'probability': must be from 1e-09 to 1", sheet, results)
    assert run("sample", results, "--unit", "word", "--out", "other.csv").returncode == 2
