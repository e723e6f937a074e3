"""The sheet: how its rows are drawn, and that it is read back as it was written, safe to open, and blind."""

import csv
import io
import json
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.audit.sheet import (
    CLAIM,
    LABELS,
    Item,
    Label,
    SheetPlan,
    draw,
    draw_more,
    plan_of,
    read_items,
    read_labels,
    stratum_of_each,
)
from rag_zeval.csv_files import NUMBER, sheet_rows, sheet_text
from rag_zeval.errors import InputError
from rag_zeval.files import json_line, read_jsonl

CELLS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")) | st.text(
    "'=+-@\t\r\n\",;a", max_size=9
)


def read_back(text: str) -> list[dict[str, str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sheet.csv"
        path.write_bytes(text.encode("utf-8"))
        return [row for _, row in sheet_rows(path)]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_any_text_is_read_back_as_it_was(rows: list[tuple[str, str, str]]) -> None:
    names = ("id", "claim", "note")
    assert read_back(sheet_text(names, rows)) == [dict(zip(names, row, strict=True)) for row in rows]


@given(CELLS)
def test_no_cell_begins_as_a_formula_does(cell: str) -> None:
    text = sheet_text(["id"], [[cell]])
    [_, [written]] = csv.reader(io.StringIO(text, newline=""))
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert written.replace("'", "") == cell.replace("'", "")
    assert text.splitlines()[0] == '\ufeff"id"'  # what has no quotes could be split at another separator


@given(st.lists(CELLS, min_size=3, max_size=3), st.sampled_from(";\t|"))
def test_no_cell_is_a_formula_where_another_delimiter_is_taken(cells: list[str], mark: str) -> None:
    with suppress(csv.Error):  # who takes the other delimiter may see no CSV at all
        rows = list(csv.reader(io.StringIO(sheet_text(["a", "b", "c"], [cells]), newline=""), delimiter=mark))
        told = [cell for row in rows for cell in row if re.match("[=+@\\-＝＋－＠]", cell)]
        assert all(re.match(rf"{NUMBER.pattern}([\",]|$)", cell) for cell in told)


def test_a_long_text_a_nul_and_semicolons_are_read(tmp_path: Path) -> None:
    long = "x" * 200_000
    assert read_back(sheet_text(["id", "note"], [[long, "a\0b"]])) == [{"id": long, "note": "a\ufffdb"}]
    path = tmp_path / "excel.csv"
    path.write_text("id;label;note\nr1;yes;a, b\n")
    assert list(sheet_rows(path)) == [(2, {"id": "r1", "label": "yes", "note": "a, b"})]


def test_people_see_texts_and_nothing_that_depends_on_a_verdict(write_results: Any, run: Any, tmp_path: Path) -> None:
    """With all claims drawn, the sheet of a judge and of one that says the contrary are the same bytes."""
    sheets = []
    for name, share in (("first", 0.8), ("second", 0.2)):
        results = write_results(support=lambda rng, share=share: rng.random() < share)
        assert run("sample", results, "--n", 10_000, "--out", f"{name}.csv").returncode == 0
        sheets.append((tmp_path / f"{name}.csv").read_bytes())
    assert sheets[0] == sheets[1]
    columns = sheets[0].decode("utf-8-sig").splitlines()[0]
    assert columns == '"id","question","reference","answer","claim","label","note"'
    rows = [row for _, row in sheet_rows(tmp_path / "first.csv")]
    assert len({row["id"] for row in rows}) == len(rows) > 50
    assert {(row["label"], row["note"]) for row in rows} == {("", "")}
    claims = [row["claim"] for row in rows]
    assert claims != sorted(claims)


@pytest.mark.parametrize(
    ("told", "columns"),
    [
        ({"reference_kind": "truth"}, {"ground truth": "It is so."}),
        ({"reference_kind": "contexts"}, {"retrieved contexts": "It is so."}),
        ({"reference_kind": "reference"}, {"reference": "It is so."}),
        (
            {"reference_kind": "truth", "chunks": ["One.", "Two."]},
            {"ground truth": "It is so.", "retrieved contexts": "One.\n\nTwo."},
        ),
        ({"reference_kind": None, "reference": ""}, {}),
        ({}, {"reference": "It is so."}),  # of before it was told
    ],
)
def test_people_are_told_what_to_judge_by(
    write_results: Any, run: Any, tmp_path: Path, told: dict[str, object], columns: dict[str, str]
) -> None:
    path = write_results(cases=2)
    rows = read_jsonl(path)
    path.write_bytes(b"".join(json_line({**row, **told}) for row in rows))
    assert run("sample", path, "--unit", "answer").returncode == 0
    for _, row in sheet_rows(tmp_path / "sheet.csv"):
        assert list(row) == ["id", "question", *columns, "answer", "label", "note"]
        assert {name: row[name] for name in columns} == columns


def test_a_sheet_that_is_there_is_not_written_over(write_results: Any, run: Any, tmp_path: Path) -> None:
    results = write_results()
    assert run("sample", results).returncode == 0
    before = (tmp_path / "sheet.csv").read_bytes()
    again = run("sample", results, "--seed", 1)
    assert (again.returncode, "may hold labels" in again.stderr) == (2, True)
    assert (tmp_path / "sheet.csv").read_bytes() == before
    (tmp_path / "sheet.csv").unlink()
    assert run("sample", results, "--seed", 1).returncode == 2  # its plan is still there
    assert run("sample", results).returncode == 0  # the same plan: a kill left it without its sheet
    assert (tmp_path / "sheet.csv").read_bytes() == before
    onto = run("sample", results, "--out", results)
    assert onto.returncode == 2 and results.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'id,label\n"r1,yes\n', ":2: cannot be read from this point on"),
        (b"id,label\nr1,yes,more\n", ":2: has more cells"),
        (b"id,label,note,label\nr1,yes,,no\n", ":1: names the column 'label' twice"),
        (b"id,label\nr\xe9,yes\n", ": is not UTF-8 text"),
    ],
)
def test_what_is_no_sheet_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "sheet.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(sheet_rows(path))
    assert str(error.value).startswith(f"{path}{message}")


def test_a_row_that_somebody_cleared_has_no_label(tmp_path: Path) -> None:
    path, plan = tmp_path / "sheet.csv", SheetPlan("m", "claim", dict.fromkeys("ab", 1.0), dict.fromkeys("ab", "s"))
    path.write_text("id;label;note\na;yes;\n;;\n\nb;;\n;;\n")
    assert read_labels(path, plan).keys() == {"a"}
    path.write_text("id;label;note\n;yes;\n")
    with pytest.raises(InputError, match="2: unknown id ''"):
        read_labels(path, plan)


def test_words_mean_the_same_of_claims_and_answers() -> None:
    for word, value in LABELS["claim"].items():
        if not word.isdigit():
            assert LABELS["answer"][word] == value


def population(sizes: dict[tuple[float, str], int]) -> list[Item]:
    """Items of these scores and slices, two to a case."""
    kinds = [kind for kind, size in sizes.items() for _ in range(size)]
    return [
        Item(f"r{number:05}", str(number // 2), slice_, "q", (("reference", "r"),), "a", "c", score, "")
        for number, (score, slice_) in enumerate(kinds)
    ]


def test_each_item_is_drawn_with_the_probability_that_is_said() -> None:
    """So a sum over the rows, weighted by the inverse, estimates that over all items without bias."""
    items = population({(1.0, "a"): 20, (0.4, "a"): 7, (0.0, "b"): 2})
    drawn = [draw(items, 9, seed) for seed in range(1_000)]
    assert all(sum(1 / probability for _, probability in rows) == pytest.approx(len(items)) for rows in drawn)
    times = Counter(item.id for rows in drawn for item, _ in rows)
    said = {item.id: probability for rows in drawn for item, probability in rows}
    for item in items:
        expected = said[item.id]
        assert abs(times[item.id] / 1_000 - expected) <= 4.5 * (expected * (1 - expected) / 1_000) ** 0.5


def test_new_rows_come_from_where_labels_differ_and_leave_the_old_ones_as_they_are() -> None:
    items = population({(0.0, "a"): 100, (1.0, "a"): 100, (1.0, "b"): 3})
    old = draw(items, 40, seed=0)
    plan = plan_of("m", CLAIM, old, stratum_of_each(items))
    labels = {item.id: Label(float(at % 2 if item.score else 0), "", "") for at, (item, _) in enumerate(old)}
    more = draw_more(items, plan, labels, 60, seed=1)
    ids = {item.id for item, _ in more}
    assert len(ids) == len(more) == 100 and plan.probabilities.keys() <= ids
    sizes, rows = (Counter(item.stratum for item in some) for some in (items, [item for item, _ in more]))
    assert all(probability == rows[item.stratum] / sizes[item.stratum] for item, probability in more)
    agreed, disputed, _ = sorted(rows, key=lambda name: ("b" in name, name))
    assert rows[disputed] > 2 * rows[agreed]
    everything = draw_more(items, plan, labels, 1_000, seed=1)
    assert [probability for _, probability in everything] == [1.0] * len(items)


def test_rows_that_are_drawn_after_the_results_grew_stand_for_old_and_new_items() -> None:
    """People call every old claim right and every new one wrong. The first rows must not stand for the new claims."""
    items = population({(1.0, "a"): 80})
    before, new = items[:40], {item.id for item in items[40:]}
    means = []
    for seed in range(20):
        old = draw(before, 10, seed)
        plan = plan_of("m", CLAIM, old, stratum_of_each(before))
        said = {item.id: Label(1.0, "", "") for item, _ in old}
        more = draw_more(items, plan, said, 10, seed)
        grown = plan_of("m", CLAIM, more, stratum_of_each(items, plan))
        assert not any(map(grown.is_new, items))
        labels = grown.weigh({item.id: Label(float(item.id not in new), "", "") for item, _ in more})
        means.append(sum(label.value * label.stands_for for label in labels.values()) / len(items))
    assert means == pytest.approx([0.5] * 20)
    most = population({(1.0, "a"): 120})  # grown once more
    assert sorted(Counter(stratum_of_each(most, grown).values()).values()) == [40, 40, 40]
    assert sum(1 / probability for _, probability in draw_more(most, grown, said, 10, 0)) == pytest.approx(120)


def test_a_sample_repeats_and_another_seed_draws_another() -> None:
    items = population({(1.0, "a"): 50, (0.0, "a"): 50})
    assert draw(items, 10, 1) == draw(items[::-1], 10, 1) != draw(items, 10, 2)


def test_fewer_rows_than_strata_are_refused() -> None:
    with pytest.raises(InputError, match="--n 1 is too small: there are 2 groups"):
        draw(population({(1.0, "a"): 5, (0.0, "a"): 5}), 1, 0)


def test_an_id_goes_with_its_text_and_not_with_the_verdict(write_results: Any) -> None:
    before = read_items(write_results(), "claim").items
    flipped = read_items(write_results(support=lambda rng: rng.random() < 0.2), "claim").items
    assert [item.id for item in before] == [item.id for item in flipped]
    assert [item.score for item in before] != [item.score for item in flipped]
    path = write_results()
    path.write_text(path.read_text().replace("Claim 0.0.", "Claim 0.0"))
    assert [item.id for item in read_items(path, "claim").items][1:] == [item.id for item in before][1:]
    assert read_items(path, "claim").items[0].id != before[0].id


def test_the_only_metric_with_claims_need_not_be_named(write_results: Any) -> None:
    path = write_results(cases=2)
    rows = read_jsonl(path)
    other = {**rows[0], "id": "0|bleu", "metric": "bleu", "trajectory": None, "scores": [0.5]}
    failed = {**rows[1], "id": "9|rag_zeval", "case": "9", "trajectory": None, "scores": [None]}
    path.write_bytes(b"".join(map(json_line, [*rows, other, failed])))
    found = read_items(path, "claim")
    assert (found.metric, found.without) == ("rag_zeval", 1)
    assert {item.case for item in found.items} == {"0", "1"}
    with pytest.raises(InputError, match="several metrics: name one of them with --metric: rag_zeval, bleu"):
        read_items(path, "answer")
    assert [item.score for item in read_items(path, "answer", "bleu").items] == [0.5]
    with pytest.raises(InputError, match="has no claims of bleu, only of rag_zeval"):
        read_items(path, "claim", "bleu")


@pytest.mark.parametrize(
    ("change", "unit", "message"),
    [
        ({"scores": [3.0]}, "answer", "case '0': rag_zeval is 3, must be from 0 to 1"),
        ({"trajectory": [{"id": "A", "atomic_claims": [{"claim": "c"}]}]}, "claim", "'is_supported' is missing"),
        ({"trajectory": None}, "claim", "no metric in it has claims"),
        ({"trajectory": [{"id": "A", "atomic_claims": []}]}, "claim", "no answer has a claim by rag_zeval"),
        ({"scores": [None]}, "answer", "no answer has a score by rag_zeval"),
        ({"metric": "ragchecker_hallucination"}, "answer", "the lower ragchecker_hallucination is, the better"),
        ({"metric": "umbrela"}, "answer", "umbrela goes up to 3, but people's grades stand for 0 to 1"),
    ],
)
def test_what_cannot_be_labelled_is_named(
    write_results: Any, change: dict[str, object], unit: str, message: str
) -> None:
    path = write_results(cases=1)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}) + "\n")
    with pytest.raises(InputError, match=message) as error:
        read_items(path, unit)
    assert str(error.value).startswith(f"{path}:") and "\n" not in str(error.value)
