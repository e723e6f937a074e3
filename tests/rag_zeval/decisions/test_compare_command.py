"""`rag-zeval compare`: what it shows, writes and refuses."""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from rag_zeval.cases.case import golden_hashes, set_version
from rag_zeval.decisions.comparison import compare_pairwise, compare_sides
from rag_zeval.decisions.sides import read_side
from rag_zeval.files import json_line, read_json, read_jsonl

HOSTILE = "<script>alert('x')</script> [red]\x1b[31m\x07 {{ 7 * 191 }} </details>"


def test_two_files_are_shown_slice_by_slice_and_claim_by_claim(
    run: Any, write_results: Any, claims: Any, tmp_path: Path
) -> None:
    held = claims([("It rains.", True), ("It is cold.", True)])
    not_held = claims([("It rains.", True), ("It is", False)])
    truth = {"reference_kind": "truth", "chunks": ["Cold rain."]}
    write_results("a.jsonl", {"s:1": 1.0, "2": 0.5, "only a": 1.0}, trajectory=held, **truth)
    write_results("b.jsonl", {"s:1": 0.5, "2": None, "s:only b": 1.0}, trajectory=not_held)
    shown = run("compare", "a.jsonl", "b.jsonl", "--out", "out.json", "--html", "page.html")
    assert shown.returncode == 0, shown.stderr
    for text in (
        "A: 3 of 4 cases have a score (75.0%); B: 2 of 4",
        "not compared: cases only in A: 1, only in B: 1",
        "not compared: 1 case without a score",
        "if missing scores could be anything from 0 to 1: between -0.500 and +0.250",
        "m: got worse most (+ supported, - not supported)\n1.000 → 0.500  s:1 (s): Question s:1?",
    ):
        assert text in shown.stdout
    assert re.search(r"all +│ 1 +│ 1.000 +│ 0.500 +│", shown.stdout)
    assert re.search(r"\+ It is cold\. +│ - It is ", shown.stdout)
    [metric] = read_json(tmp_path / "out.json")["metrics"]
    assert metric["overall"]["change"] == {"value": -0.5, "low": None, "high": None} and metric["overall"]["n"] == 1
    assert [one["first"]["case"] for one in metric["worse"]] == ["s:1"]
    page = "".join(etree.HTML((tmp_path / "page.html").read_text()).itertext())
    for text in ("It is cold.", "✗ not supported", "Why: It is", "verbatim", "-0.500", "only in A"):
        assert text in page
    for text in (
        "Judged by the ground truth",
        "Judged by the retrieved contexts",
        "Cold rain.",
        "Judged by the reference",
    ):
        assert page.count(text) == 1


def test_hostile_text_is_text_on_the_page_and_moves_no_terminal(
    run: Any, write_results: Any, claims: Any, tmp_path: Path
) -> None:
    pages = {}
    for name, text in (("plain", "text"), ("hostile", HOSTILE)):
        fields = {"question": text, "answers": [text], "systems": [text], "slice_tag": text, "reference": text}
        fields |= {"trajectory": claims([(text, True)]), "identity": text, "prompt_hash": text}
        write_results("a.jsonl", {text: {"1": 1.0, text: 1.0}}, **fields)
        write_results("b.jsonl", {text: {"1": 0.0, text: 0.5}}, **{**fields, "identity": text + "2"})
        shown = run("compare", "a.jsonl", "b.jsonl", "--html", f"{name}.html")
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout and "\x07" not in shown.stdout
        assert "the change could come from the judge" in shown.stdout
        pages[name] = etree.HTML((tmp_path / f"{name}.html").read_text())
    plain, hostile = ({element.tag for element in page.iter()} for page in pages.values())
    assert hostile == plain and not {"script", "img", "link"} & plain
    text = "".join(pages["hostile"].itertext())
    assert text.count("<script>alert('x')</script>") >= 8 and "1337" not in text
    assert "[red]" in shown.stdout


def test_a_slice_that_is_called_all_is_not_taken_for_all_cases(run: Any, write_results: Any, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write_results(name, {"all:1": 1.0, "other:2": 0.5})
    for command in ("compare", "gate", "dashboard"):
        shown = run(command, "a.jsonl", "b.jsonl", *(["--metric=m"] if command == "dashboard" else []))
        assert "all (slice)" in shown.stdout, command


@pytest.mark.parametrize(
    ("words", "worse", "better", "left"),
    [
        ((), 10, 10, "30 more questions changed (20 got worse, 10 better); --changed 50 prints all of them"),
        (("--changed", "3"), 2, 1, "47 more questions changed (28 got worse, 19 better)"),
        (("--changed", "0"), 0, 0, "50 more questions changed (30 got worse, 20 better)"),
        (("--changed", "45"), 25, 20, "5 more questions changed (5 got worse, 0 better)"),
        (("--changed", "50"), 30, 20, None),
    ],
)
def test_not_more_questions_are_printed_than_wanted_and_the_rest_is_counted(
    run: Any, write_results: Any, tmp_path: Path, words: Any, worse: int, better: int, left: str | None
) -> None:
    after = {str(at): 0.4 if at < 30 else 0.6 if at < 50 else 0.5 for at in range(60)}
    write_results("a.jsonl", dict.fromkeys(after, 0.5))
    write_results("b.jsonl", after)
    shown = run("compare", "a.jsonl", "b.jsonl", "--out", "out.json", "--html", "page.html", *words)
    changes = re.findall(r"^0.500 → (\d\.\d+)  ", shown.stdout, re.M)
    assert shown.returncode == 0 and len(changes) == worse + better
    assert changes.count("0.400") == worse and "supported" not in shown.stdout  # the metric has no claims
    assert re.findall(r"m: (\d+ more .*)", shown.stdout) == [] if left is None else f"\nm: {left}" in shown.stdout
    [metric] = read_json(tmp_path / "out.json")["metrics"]
    assert (len(metric["worse"]), len(metric["better"])) == (30, 20)
    assert (tmp_path / "page.html").read_text().count("</summary>") == 20


def test_three_files_are_compared_by_twos(run: Any, write_results: Any, tmp_path: Path) -> None:
    for name, worse in (("a", 0.0), ("b", 0.5), ("c", 0.5)):
        write_results(f"{name}.jsonl", {str(at): 1 - worse * (at % 3 > 0) for at in range(30)} | {f"no {name}": None})
    shown = run("compare", "a.jsonl", "b.jsonl", "c.jsonl", "--out", "out.json")
    assert shown.returncode == 0, shown.stderr
    assert "discriminative power: 2 of 3 pairs told apart" in shown.stdout and "30 of 33" in shown.stdout
    sides = [read_side(str(tmp_path / f"{name}.jsonl")) for name in "abc"]
    found = compare_pairwise(sides, "m")
    assert found.power == pytest.approx(2 / 3)
    assert found.pairs[0].change == compare_sides(sides[0], sides[1], "m").overall.change
    assert [pair.n for pair in found.pairs] == [30, 30, 30] and found.pairs[2].p_holm == 1
    [metric] = read_json(tmp_path / "out.json")["metrics"]
    assert metric["power"] == found.power and len(metric["pairs"]) == 3
    write_results("d.jsonl", {"no a": 1.0})  # shares no score with the others
    apart = run("compare", "a.jsonl", "d.jsonl", "b.jsonl", "--out", "apart.json")
    assert re.search(r"a.jsonl +│ d.jsonl +│ 0 +│ – +│ – ", apart.stdout), apart.stdout
    [pair, *_] = read_json(tmp_path / "apart.json")["metrics"][0]["pairs"]
    assert pair["change"] is pair["p_holm"] is None


def test_a_slice_without_a_pair_has_no_p_and_is_no_test(run: Any, write_results: Any, tmp_path: Path) -> None:
    write_results("a.jsonl", {f"s:{at}": 1.0 for at in range(8)} | {"t:1": 1.0})
    write_results("b.jsonl", {f"s:{at}": 0.5 for at in range(8)} | {"t:1": None})
    shown = run("compare", "a.jsonl", "b.jsonl", "--out", "out.json")
    assert re.search(r"│ t +│ 0 +│ – +│ – +│ – +│ – +│ – +│", shown.stdout), shown.stdout
    of_s, of_t = read_json(tmp_path / "out.json")["metrics"][0]["slices"]
    assert of_t["p"] is of_t["p_holm"] is None and of_s["p_holm"] == of_s["p"] == 2 / 2**8
    write_results("old.jsonl", {f"s:{at}": 1.0 for at in range(9)})
    write_results("new.jsonl", {f"s:{at}": 1.0 for at in range(8)} | {"s:8": 0.5})
    left = run("compare", "old.jsonl", "new.jsonl", "--changed", "0").stdout
    assert "m: 1 more question changed (1 got worse, 0 better)" in left


def test_a_file_of_several_systems_is_compared_by_their_names(run: Any, write_results: Any) -> None:
    write_results(
        "two.jsonl", {"1": 1.0}, systems=["x", "y"], answers=["a", "b"], scores=[1.0, 0.5], statuses=["ok"] * 2
    )
    shown = run("compare", "two.jsonl#x", "two.jsonl#y")
    assert shown.returncode == 0 and "-0.500" in shown.stdout
    odd = write_results("odd#x", {"1": 1.0})
    assert read_side(str(odd)).judged["m"]["1"].score == 1.0  # a file may have the mark in its name
    for name in ("marks", "mar#ks"):  # and so may a system
        path = write_results(
            name, {"1": 1.0}, systems=["v#1", "v#2"], answers=["a", "b"], scores=[1.0, 0.5], statuses=["ok"] * 2
        )
        assert read_side(f"{path}#v#2").judged["m"]["1"].score == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a.jsonl", "got one"),
        ("a.jsonl two.jsonl", "two.jsonl: holds 2 systems; name one as two.jsonl#SYSTEM: x, y"),
        ("a.jsonl two.jsonl#z", "two.jsonl: unknown system 'z'; choose from: x, y"),
        ("a.jsonl two.jsonl:x", "two.jsonl:x: no such file; to name a system of two.jsonl, write two.jsonl#x"),
        ("a.jsonl asked.jsonl", "asked.jsonl: comes from a different input: in 2 of 3 cases the question differs from "
         "a.jsonl, the first is case '2': 'Else?' instead of 'Question 2?'"),
        ("a.jsonl others.jsonl", "others.jsonl: has no case in common with a.jsonl"),
        ("a.jsonl n.jsonl", "the files share no metric: a.jsonl has m; n.jsonl has n"),
        ("a.jsonl a.jsonl --metric n", "a.jsonl: has no metric 'n'; it has: m"),
        ("a.jsonl missing.jsonl", "missing.jsonl: cannot be read"),
        ("a.jsonl b.jsonl --out b.jsonl", "--out b.jsonl is the same file as INPUT"),
        ("a.jsonl b.jsonl n.jsonl --html x.html", "--html compares two files, got 3"),
        ("a.jsonl b.jsonl ./a.jsonl", "the same result file is given twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_line(
    words: str, said: str, run: Any, write_results: Any, tmp_path: Path
) -> None:
    scored = {"1": 1.0, "2": 1.0, "3": 1.0}
    for name in ("a.jsonl", "b.jsonl"):
        write_results(name, scored)
    two = {"systems": ["x", "y"], "answers": ["a", "b"], "scores": [1.0, 0.5], "statuses": ["ok"] * 2}
    write_results("two.jsonl", scored, **two)
    write_results("n.jsonl", {"n": scored})
    write_results("others.jsonl", {"9": 1.0})
    asked = read_jsonl(tmp_path / "a.jsonl")
    changed = [one if one["case"] == "1" else {**one, "question": "Else?"} for one in asked]
    (tmp_path / "asked.jsonl").write_bytes(b"".join(map(json_line, changed)))
    refused = run("compare", *words.split())
    assert refused.returncode == 2 and said in refused.stderr and refused.stderr.count("\n") == 1


def test_a_row_that_was_edited_is_named_and_left_out(run: Any, write_results: Any, tmp_path: Path) -> None:
    """Of 60 rows the truth of one is another: nothing but its hash shows that. Its score fell, and does not count."""
    asked = {str(at): golden_hashes(f"Question {at}?", f"It is {at}.", [f"c{at}"]) for at in range(60)}
    for name, truth in (("a", "It is 7."), ("b", "It is 8."), ("old", None)):
        path = write_results(f"{name}.jsonl", {case: float(name == "a" or case != "7") for case in asked})
        texts = {**asked, "7": golden_hashes("Question 7?", truth, ["c7"])}
        rows = [{**row, **({"golden": texts[row["case"]]} if truth else {})} for row in read_jsonl(path)]
        path.write_bytes(b"".join(map(json_line, rows)))
    shown = run("compare", "a.jsonl", "b.jsonl", "--out", "out.json")
    assert "not compared: 1 case whose texts were edited between A and B: 7 (truth)\n" in shown.stdout
    assert shown.stdout.startswith(
        f"A: a.jsonl (question set {set_version(asked.values())})\nB: b.jsonl (question set "
    )
    [found] = read_json(tmp_path / "out.json")["metrics"]
    assert (found["overall"]["n"], found["overall"]["change"]["value"], found["edited"]) == (59, 0.0, {"7": ["truth"]})
    gate = run("gate", "a.jsonl", "b.jsonl")
    assert gate.returncode == 0 and "warning  every metric, question set: not compared: 1 case " in gate.stdout
    for names in (["a.jsonl", "b.jsonl"], ["b.jsonl"]):  # a bar is about all cases, whatever B is compared with
        assert re.search(r"m, at least 0.9: 0.983 .*, n = 60\b", run("gate", *names, "--min", "m=0.9").stdout)
    by_twos = run("compare", "a.jsonl", "b.jsonl", "old.jsonl")
    assert "7 (truth)" in by_twos.stdout and by_twos.stdout.count("59 of 59") == 3
    by_twos = run("compare", "old.jsonl", "a.jsonl", "b.jsonl")  # the first file cannot tell, the others can
    assert "edited between the files: 7 (truth)" in by_twos.stdout and by_twos.stdout.count("59 of 59") == 3
    told = run("consistency", "a.jsonl", "b.jsonl", "old.jsonl").stderr
    assert told == "note: not compared: 1 case whose texts were edited between the files: 7 (truth)\n"
    of_before = run("compare", "a.jsonl", "old.jsonl").stdout  # a file of earlier versions cannot tell
    assert "\nB: old.jsonl\n" in of_before and "edited" not in of_before and " 60 " in of_before


def test_a_metric_of_edited_cases_only_has_nothing_to_compare(run: Any, write_results: Any) -> None:
    for name in ("a", "b"):
        path = write_results(f"{name}.jsonl", {"m": {"1": 1.0, "2": 1.0, "3": 1.0}, "n": {"1": 1.0}})
        truths = {"1": name, "2": "two", "3": "three"}
        rows = [{**row, "golden": {"truth": truths[row["case"]]}} for row in read_jsonl(path)]
        path.write_bytes(b"".join(map(json_line, rows)))
    shown = run("compare", "a.jsonl", "b.jsonl")
    assert shown.returncode == 0 and "A: 0 of 0 cases have a score" in shown.stdout
    assert run("compare", "a.jsonl", "b.jsonl", "a.jsonl#answer").returncode == 0
    gate = run("gate", "a.jsonl", "b.jsonl")
    assert gate.returncode == 1 and "failed   n, all: no case has a score on both sides" in gate.stdout


def test_a_question_that_was_edited_is_left_out_in_old_files_too(run: Any, write_results: Any, tmp_path: Path) -> None:
    write_results("a.jsonl", {"1": 1.0, "2": 0.5, "3": 1.0})
    rows = read_jsonl(write_results("b.jsonl", {"1": 1.0, "2": 0.5, "3": 0.0}))
    (tmp_path / "b.jsonl").write_bytes(b"".join(map(json_line, [*rows[:2], {**rows[2], "question": "Else?"}])))
    shown = run("compare", "a.jsonl", "b.jsonl")
    assert "3 (question)" in shown.stdout and "A: 2 of 2 cases" in shown.stdout
    golden = [{**row, "golden": {"question": "q", "truth": row["case"]}} for row in rows]
    for name, more in (("a", ""), ("b", "new")):
        edited = [{**row, "golden": {**row["golden"], "truth": row["case"] + more}} for row in golden]
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(map(json_line, edited)))
    refused = run("compare", "a.jsonl", "b.jsonl")
    assert refused.returncode == 2 and "b.jsonl: every case was edited since a.jsonl" in refused.stderr


def test_a_judge_that_is_another_is_told(run: Any, write_results: Any) -> None:
    write_results("a.jsonl", {"1": 1.0}, identity="one", prompt_hash="p")
    write_results("b.jsonl", {"1": 1.0}, identity="two", prompt_hash="p")
    said = "A was judged by one …, B by two …, so the change could come from the judge"
    assert said in run("compare", "a.jsonl", "b.jsonl").stdout
    gate = run("gate", "a.jsonl", "b.jsonl")
    assert gate.returncode == 0 and f"warning  m, judge: {said}" in gate.stdout
    assert "judged by" not in run("compare", "a.jsonl", "a.jsonl").stdout
    write_results("a.jsonl", {"1": 1.0}, identity="http://h/v1 j prompt paper temperature=0 reader 2")
    write_results("b.jsonl", {"1": 1.0}, identity="http://h/v1 j prompt paper temperature=1 reader 2")
    said = "A was judged by … paper temperature=0 …, B by … paper temperature=1 …, so"  # only where they differ
    assert said in run("compare", "a.jsonl", "b.jsonl").stdout
    write_results("b.jsonl", {"1": 1.0})
    said = "A was judged by http://h/v1 j prompt paper temperature=0 reader 2, B by ?, so"
    assert said in run("compare", "a.jsonl", "b.jsonl").stdout
    for name in ("a", "b"):  # a name may be longer than what is shown of it
        write_results(f"{name}.jsonl", {"1": 1.0}, identity="long" * 99, prompt_hash=name)
    assert "A was judged by" in run("compare", "a.jsonl", "b.jsonl").stdout
    for name, judge in (("a", "one"), ("b", "two"), ("c", "one")):
        write_results(f"{name}.jsonl", {"ragchecker_hallucination": {"1": 1.0}, "m": {"1": 1.0}}, identity=judge)
    said = "a.jsonl and c.jsonl were judged by one, b.jsonl by two, so the change could come from the judge"
    three = run("compare", "a.jsonl", "b.jsonl", "c.jsonl").stdout
    assert three.count(said) == 2 and three.count("lower is better") == 1


def test_a_question_without_truth_is_no_case_of_a_metric_that_needs_one(run: Any, write_results: Any) -> None:
    """Unanswerable questions have no score in any version, so they do not tell versions apart."""
    lost = {"a": ["no ground truth"] * 3, "b": ["no ground truth", "no answer", "no reply"]}
    for name, reasons in lost.items():
        path = write_results(f"{name}.jsonl", {str(at): 1.0 for at in range(40)} | dict.fromkeys("xyz"))
        rows = read_jsonl(path)
        for row, why in zip(rows[40:], reasons, strict=True):
            golden = {"question": "q"} | ({"truth": "t"} if why == "no reply" else {})
            row |= {"statuses": [f"failed: {why}"], "status": f"failed: {why}", "golden": golden}
        path.write_bytes(b"".join(map(json_line, rows)))
    for files, cases in ((["a", "b"], 41), (["b", "a"], 41), (["a"], 40), (["b"], 42)):
        gate = run("gate", *(f"{name}.jsonl" for name in files), "--min", "m=0.9")
        said = f"B: 40 of {cases} cases have a score ({40 / cases:.1%}), must be at least 95.0%; left out: "
        said += f"{43 - cases} question"
        assert gate.returncode == 0 and said in gate.stdout
    for names in (["a.jsonl", "b.jsonl"], ["a.jsonl", "b.jsonl", "a.jsonl#answer"]):
        shown = run("compare", *names).stdout
        assert "  not compared: 2 questions without ground truth\n" in shown and "40 of 41" in shown


def test_files_without_a_common_id_pair_by_question(run: Any, write_results: Any, tmp_path: Path) -> None:
    """As those do that `evaluate` numbered by lines, once, with those that have no ids now."""
    write_results("old.jsonl", {"2": 1.0, "3": 0.5})
    write_results("new.jsonl", {"q-b": 0.0, "q-a": 1.0})
    asked = zip(read_jsonl(tmp_path / "new.jsonl"), ("Question 3?", "Question 2?"), strict=True)
    lines = [json_line({**row, "question": question}) for row, question in asked]
    (tmp_path / "new.jsonl").write_bytes(b"".join(lines))
    shown = run("compare", "old.jsonl", "new.jsonl", "--out", "out.json")
    assert shown.stderr == "note: the files share no id, so cases are paired by their questions\n"
    (found,) = read_json(tmp_path / "out.json")["metrics"]
    assert (found["overall"]["n"], found["overall"]["change"]["value"]) == (2, -0.25)


def test_equal_questions_are_paired_whatever_the_order_of_the_rows(run: Any, result_row: Any, tmp_path: Path) -> None:
    def rows(prefix: str, cases: Sequence[int]) -> bytes:
        lines = []
        for at in cases:
            golden = golden_hashes("Why?", f"Truth {at}", ())
            for metric in ("m", "n") if at != 2 else ("n",):  # killed before the last row of the first metric
                lines.append(result_row(f"{prefix}{at}", metric, at / 20, question="Why?", golden=golden))
        return b"".join(map(json_line, lines))

    (tmp_path / "old.jsonl").write_bytes(rows("a", range(12)))
    (tmp_path / "new.jsonl").write_bytes(rows("b", random.Random(0).sample(range(12), 12)))
    assert run("compare", "old.jsonl", "new.jsonl", "--out", "out.json").returncode == 0
    for one, n in zip(read_json(tmp_path / "out.json")["metrics"], (11, 12), strict=True):
        assert (one["overall"]["n"], one["edited"], one["worse"], one["better"]) == (n, {}, [], [])
