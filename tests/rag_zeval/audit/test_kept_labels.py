"""Labels are found again in another run, stand for the same texts as before, and for no others."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_zeval.audit.corrected_mean import corrected_mean, labelled_sample, mean_of_labels
from rag_zeval.audit.kept_labels import ADJUDICATED, keep, read_kept, reuse, text_keys
from rag_zeval.audit.sheet import (
    Item,
    Label,
    SheetPlan,
    draw,
    draw_more,
    plan_of,
    read_items,
    read_labels,
    read_plan,
    stratum_of_each,
)
from rag_zeval.errors import InputError
from rag_zeval.files import json_line, read_jsonl

YES, NO = Label(1.0, "yes", ""), Label(0.0, "no", "")
ANSWERS, CLAIMS = (SheetPlan("m", unit, {}, {}) for unit in ("answer", "claim"))  # of results that have not grown


def items(n: int, judge: int = 0, slices: int = 2) -> list[Item]:
    """Answers that judges score differently, each with an id of its own by every judge."""
    rng = random.Random(judge)
    return [
        Item(f"r{judge}.{at:04}", str(at), f"s{at % slices}", f"q{at}?", (("reference", "t"),), f"a{at}", None,
             rng.choice([0.1, 0.6, 0.9]), "")
        for at in range(n)
    ]  # fmt: skip


def labelled(drawn: Any, share: float = 0.5) -> dict[str, Label]:
    return {item.id: YES if int(item.case) % 100 < 100 * share else NO for item, _ in drawn}


def test_the_same_run_is_audited_as_before_and_another_judge_with_the_weights_of_the_draw(tmp_path: Path) -> None:
    path, first = tmp_path / "labels.jsonl", items(400)
    drawn = draw(first, 30, 0)
    labels = labelled(drawn)
    keep(path, first, ANSWERS, labels, "ann")
    other = items(400, judge=1)[::-1]
    found = reuse(read_kept(path), other, None, 0, 0)
    assert (len(found.labels), found.of) == (30, 0)
    places = {item.case: item.stratum for item in first}
    sizes, rows = Counter(places.values()), Counter(item.stratum for item, _ in drawn)
    for item, probability in found.rows:
        assert probability == rows[places[item.case]] / sizes[places[item.case]]
    again = reuse(read_kept(path), first, None, 0, 0)
    before = labelled_sample(first, plan_of("m", "answer", drawn, stratum_of_each(first)).weigh(labels))
    after = labelled_sample(first, plan_of("m", "answer", again.rows, again.strata, again.labels).weigh(again.labels))
    assert before and after and corrected_mean(before) == corrected_mean(after)


def test_labels_of_an_unequal_draw_give_another_judge_the_mean_that_people_gave(tmp_path: Path) -> None:
    """Rows that the first judge doubted are drawn ten times as often. The other judge's strata know nothing of that."""
    means = []
    for seed in range(60):
        path, rng = tmp_path / f"{seed}.jsonl", random.Random(seed)
        first = [replace(item, score=0.1 if at < 60 else 0.9) for at, item in enumerate(items(600))]
        doubted, sure = rng.sample(first[:60], 40), rng.sample(first[60:], 36)
        labels = {item.id: NO for item in doubted} | {item.id: YES for item in sure}
        keep(path, first, ANSWERS, labels, "ann")
        other = items(600, judge=seed + 1)
        found = reuse(read_kept(path), other, None, 0, 0)
        weights = {item.id: 1 / probability for item, probability in found.rows}
        sample = labelled_sample(other, {k: replace(v, stands_for=weights[k]) for k, v in found.labels.items()})
        assert sample is not None
        means.append(mean_of_labels(sample, 0.0, added=False).value)
    assert np.mean([value for value in means if value is not None]) == pytest.approx(0.9, abs=1e-9)


def test_texts_of_which_no_label_tells_anything_are_counted(tmp_path: Path) -> None:
    path, first = tmp_path / "labels.jsonl", items(400)
    drawn = draw(first, 30, 0)
    said = {id_: label for id_, label in labelled(drawn).items() if int(id_[3:]) % 2}  # one slice alone
    keep(path, first, ANSWERS, said, "ann")
    for judge in (0, 1):
        run = items(400, judge)
        found = reuse(read_kept(path), run, None, 0, 0)
        assert (len(found.labels), found.unlabelled, found.of) == (len(said), 200, 0)
        plan = plan_of("m", "answer", found.rows, found.strata, found.labels)
        assert str(plan.without_label(run, found.labels)).startswith("200 of 400 answers have new texts, or are in")
    plan = plan_of("m", "answer", drawn, stratum_of_each(first))
    assert str(plan.without_label(first, said)).startswith("200 of 400 answers are in")


def test_new_texts_are_counted_and_drawn_apart(tmp_path: Path) -> None:
    path, old = tmp_path / "labels.jsonl", items(200)
    keep(path, old, ANSWERS, labelled(draw(old, 20, 0)), "ann")
    changed = [
        replace(item, answer=f"new {item.case}") if int(item.case) < 50 else item for item in items(200, judge=1)
    ]
    found = reuse(read_kept(path), changed, None, 12, 0)
    gone = sum(int(row["text"] in dict.fromkeys(text_keys(old[:50]))) for row in read_jsonl(path) if "person" in row)
    assert (len(found.labels), found.of, found.more) == (20 - gone, 50, 12)
    plan = plan_of("m", "answer", found.rows, found.strata, found.labels)
    assert str(plan.without_label(changed, found.labels)).startswith("50 of 200 answers have new texts")
    new = [item for item, _ in found.rows if item.id not in found.labels]
    assert {int(item.case) < 50 for item in new} == {True} and len(new) == 12
    added = keep(path, changed, ANSWERS, {item.id: YES for item in new} | found.labels, "ann")
    assert (added.new, added.replaced, added.outside, len(added.kept.draws)) == (12, 0, 0, 2)
    assert len(reuse(read_kept(path), changed, None, 0, 0).labels) == 32 - gone
    fresh = [item for item, _ in draw(changed, 80, 5) if int(item.case) >= 50 and item.id not in found.labels]
    assert keep(path, changed, ANSWERS, {item.id: NO for item in fresh}, "ann").outside == len(fresh) > 0
    later = next(item for item in changed[:50] if item not in new)  # of the same sheet, labelled another day
    added = keep(path, changed, ANSWERS, {later.id: NO}, "ann")
    assert (added.new, added.outside, len(added.kept.draws)) == (1, 0, 2)


def test_a_stratum_whose_labelled_texts_are_gone_has_no_label(tmp_path: Path) -> None:
    path, old = tmp_path / "labels.jsonl", items(40)
    drawn = draw(old, 12, 0)
    keep(path, old, ANSWERS, labelled(drawn), "ann")
    gone = {item.id for item, _ in drawn if item.slice == "s0"}
    run = [replace(item, answer="new") if item.id in gone else item for item in old]
    found = reuse(read_kept(path), run, None, 0, 0)
    plan = plan_of("m", "answer", found.rows, found.strata, found.labels)
    left = sum(item.slice == "s0" for item in run) - len(gone)
    assert (found.unlabelled, found.of) == (left, len(gone)) and left > 0
    assert str(plan.without_label(run, found.labels)).startswith(f"{left + len(gone)} of 40 answers have new texts")


def test_more_rows_of_the_same_draw_are_kept_and_equal_texts_are_several(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    twins = [*items(40, slices=1), replace(items(1)[0], id="twin", case="another")]
    assert [key for key in text_keys(twins) if "#" in key] == [f"{text_keys(twins)[0]}#2"]
    drawn = draw(twins, 10, 0)
    keep(path, twins, ANSWERS, labelled(drawn), "ann")
    plan = plan_of("m", "answer", drawn, stratum_of_each(twins))
    more = draw_more(twins, plan, labelled(drawn), 5, 1)
    added = keep(path, twins, ANSWERS, labelled(more), "ann")
    assert (added.new, added.outside, len(added.kept.draws)) == (5, 0, 1)


def test_rows_of_results_that_grew_keep_their_weights(tmp_path: Path) -> None:
    path, grown = tmp_path / "labels.jsonl", items(80, slices=1)
    old = draw(grown[:40], 12, 0)
    plan = plan_of("m", "answer", old, stratum_of_each(grown[:40]))
    more = draw_more(grown, plan, labelled(old), 20, 1)
    keep(path, grown, plan_of("m", "answer", more, stratum_of_each(grown, plan)), labelled(more), "ann")
    assert sorted(reuse(read_kept(path), grown, None, 0, 0).rows, key=lambda row: row[0].id) == more


def test_people_differ_until_somebody_decides(tmp_path: Path) -> None:
    path, all_of = tmp_path / "labels.jsonl", items(8, slices=1)
    first, second, third = (item.id for item in all_of[:3])
    keep(path, all_of, ANSWERS, {first: YES, second: YES}, "ann")
    added = keep(path, all_of, ANSWERS, {first: NO, second: YES, third: NO}, "bob")
    assert [sorted(people) for people in added.kept.disputed().values()] == [["ann", "bob"]]
    assert reuse(added.kept, all_of, None, 0, 0).labels == {first: YES, second: YES, third: NO}
    assert reuse(added.kept, all_of, "bob", 0, 0).labels == {first: NO, second: YES, third: NO}
    ann = reuse(added.kept, all_of, "ann", 0, 0)
    assert ann.labels == {first: YES, second: YES} and len(ann.rows) == 3  # both sheets have the same rows
    decided = keep(path, all_of, ANSWERS, {first: NO}, ADJUDICATED).kept
    assert not decided.disputed() and reuse(decided, all_of, None, 0, 0).labels[first] == NO
    assert keep(path, all_of, ANSWERS, {first: YES}, ADJUDICATED).replaced == 1


def test_labels_that_a_sheet_was_filled_with_stay_those_of_the_people_who_gave_them(
    run: Any, write_results: Any, tmp_path: Path
) -> None:
    results = write_results(12)
    path, all_of = tmp_path / "labels.jsonl", read_items(results, "claim").items
    keep(path, all_of, CLAIMS, dict.fromkeys((item.id for item in all_of[:3]), YES), "ann")
    assert run("reuse-labels", path, results, "--out", "again.csv").returncode == 0
    sheet = (tmp_path / "again.csv").read_text("utf-8").replace('"yes"', '"YES"').replace('"YES"', '"no"', 1)
    (tmp_path / "again.csv").write_text(sheet, "utf-8")  # bob changed one label; his program writes capitals
    now = read_labels(tmp_path / "again.csv", read_plan(tmp_path / "again.csv"))
    *_, unchanged = [id_ for id_, label in now.items() if label.value == 1]
    keep(path, all_of, CLAIMS, {unchanged: NO}, "bea")  # she differs, and keeps doing so
    for person, new in (("ann", 0), ("bob", 1), ("bea", 1), (ADJUDICATED, 3)):
        (tmp_path / "copy.jsonl").write_bytes(path.read_bytes())
        kept = run("keep-labels", "again.csv", results, "--person", person, "--labels", "copy.jsonl").stdout
        assert f"{4 + new} labels; {new} new, {int(person == 'ann')} changed" in kept


def test_a_new_run_is_audited_without_new_work(run: Any, write_results: Any, fill: Any, tmp_path: Path) -> None:
    results = write_results(120)
    assert run("sample", results, "--n", 60).returncode == 0
    fill(tmp_path / "sheet.csv", results, lambda score: "yes" if score else "no")
    before = run("audit", "sheet.csv", results).stdout
    kept = run("keep-labels", "sheet.csv", results, "--person", "ann")
    assert kept.returncode == 0 and kept.stdout == "labels.jsonl: 60 labels; 60 new, 0 changed\n"
    rows = [{**row, "id": f"x{row['id']}", "metric": "other"} for row in read_jsonl(results)]
    (tmp_path / "new.jsonl").write_bytes(b"".join(map(json_line, rows)))
    again = run("reuse-labels", "labels.jsonl", "new.jsonl", "--out", "again.csv")
    assert again.stdout == "again.csv: 60 of 60 labelled texts apply to new.jsonl\n"
    shown = run("audit", "again.csv", "new.jsonl").stdout
    assert shown.replace("other", "rag_zeval") == before
    fill(tmp_path / "sheet.csv", results, lambda score: "no")
    kept = run("keep-labels", "sheet.csv", results, "--person", "bob").stdout
    yes = sum(score == 1.0 for score in (item.score for item in read_items(results, "claim").items))
    assert re.search(r"\n[1-9]\d* rows on which people differ:\n", kept) and "ann: yes; bob: no" in kept and yes
    for name in ("ann", "bob"):
        assert (
            run("reuse-labels", "labels.jsonl", "new.jsonl", "--person", name, "--out", f"{name}.csv").returncode == 0
        )
    for command, message in (
        (["keep-labels", "sheet.csv", results, "--person", ""], "--person is empty"),
        (["reuse-labels", "labels.jsonl", "new.jsonl", "--person", "bod"], "choose from: ann, bob"),
    ):
        refused = run(*command)
        assert refused.returncode == 2 and message in refused.stderr
    assert "kappa with the first person, on the 60 rows" in run("audit", "ann.csv", "new.jsonl", "bob.csv").stdout
    refused = run("sample", "new.jsonl", "--more", "ann.csv", "--out", "more.csv")
    assert refused.returncode == 2 and "--more: this sheet was made of kept labels" in refused.stderr
    few = read_labels(tmp_path / "ann.csv", read_plan(tmp_path / "ann.csv"))
    assert sum(label.stands_for or 0 for label in few.values()) == pytest.approx(
        len(read_items(results, "claim").items)
    )


DRAWN = {"draw": "d", "unit": "claim", "strata": {"s": ["t"]}}
LABELLED = {"text": "t", "person": "p", "label": "yes", "note": ""}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([LABELLED], "holds no draw, which"),
        ([{**LABELLED, "text": "u"}, DRAWN], ":1: field 'text': no draw has 'u'"),
        ([DRAWN, {**LABELLED, "label": "maybe"}], ":2: field 'label': 'maybe' is no label of a claim"),
        ([DRAWN, {**LABELLED, "person": 3}], ":2: field 'person' must be str"),
        ([DRAWN, {**DRAWN, "unit": "answer"}], ":2: field 'unit' must be one of claim, answer, and the same"),
    ],
)
def test_a_file_of_labels_that_is_none_is_named(lines: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"".join(map(json_line, lines)))
    with pytest.raises(InputError) as error:
        read_kept(path)
    assert said in str(error.value)


def test_labels_of_other_texts_or_another_unit_are_refused(run: Any, write_results: Any, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_bytes(b"".join(map(json_line, [DRAWN, LABELLED])))
    refused = run("reuse-labels", "labels.jsonl", write_results(5))
    assert refused.returncode == 2 and "no label applies to" in refused.stderr
    with pytest.raises(InputError, match="holds labels of claims, not of answers"):
        keep(tmp_path / "labels.jsonl", items(3), ANSWERS, {}, "ann")
    assert run("sample", "results.jsonl").returncode == 0
    refused = run("keep-labels", "sheet.csv", "results.jsonl", "--person", "ann", "--labels", "mine.jsonl")
    assert refused.returncode == 2 and "column 'label' of the sheet is empty in every row" in refused.stderr
    assert not (tmp_path / "mine.jsonl").exists()  # with labels, the same command works
