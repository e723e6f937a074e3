"""Every answer is in one class, by scores and ranks; nothing that is missing is guessed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.cases.case import Case
from rag_zeval.decisions.sides import Side
from rag_zeval.files import Row, json_line, read_jsonl
from rag_zeval.golden.failure_classes import CLASSES, NOT_KNOWN, Metrics, choose_metrics, classify, shares
from rag_zeval.golden.release_measures import with_measures
from rag_zeval.results import Judged
from rag_zeval.statistics.bootstrap import share_interval

METRICS = Metrics("is_correct", "rag_zeval")
SCORES = st.sampled_from([None, 0.0, 0.49, 0.5, 1.0])
IDS = st.lists(st.sampled_from("abcd"), max_size=4).map(tuple)
EACH = {  # correct, supported, retrieved, gold -> class, at k = 2
    (0.0, 1.0, "xyz", "a"): "wrong, not retrieved",
    (0.0, None, "xya", "a"): "wrong, retrieved below k",
    (0.4, 0.0, "xa", "ab"): "wrong, in the prompt",
    (0.5, 0.4, "", ""): "right, without support",
    (1.0, 0.5, "xyz", "a"): "right and supported",
    (1.0, None, "a", "a"): "not known",
    (None, 1.0, "a", "a"): "not known",
    (0.0, 1.0, "", "a"): "not known",
    (0.0, 1.0, "a", ""): "not known",
}


def judged(case: str, metric: str, score: float | None, system: str = "ours", slice_tag: str | None = None) -> Judged:
    status = "ok" if score is not None else "failed: timeout"
    return Judged(case, f"Question {case}?", slice_tag, system, metric, f"Answer {case}.", "", score, status, None)


def case(id_: str, retrieved: Any, gold: Any) -> Case:
    answers = {"ours": f"Answer {id_}."}
    return Case(id_, f"Question {id_}?", answers, context_ids=tuple(retrieved), gold_chunk_ids=tuple(gold))


@pytest.mark.parametrize(("given_", "class_name"), EACH.items())
def test_scores_and_ranks_say_the_class(given_: tuple[Any, ...], class_name: str) -> None:
    correct, supported, retrieved, gold = given_
    rows = [judged("1", "rag_zeval", supported), judged("1", "is_correct", correct)]
    [found] = classify(rows, [case("1", retrieved, gold)], METRICS, 2)
    assert found.class_name == class_name
    assert (found.why != "") == (class_name == NOT_KNOWN)
    assert (found.correct, found.supported) == (correct, supported)


@given(st.lists(st.tuples(SCORES, SCORES, IDS, IDS, st.sampled_from(["x", "y", None])), min_size=1), st.integers(1, 4))
def test_every_answer_is_in_one_class_and_every_share_has_its_n(answers: list[Any], k: int) -> None:
    rows, cases = [], []
    for number, (correct, supported, retrieved, gold, tag) in enumerate(answers):
        rows += [judged(str(number), name, score, slice_tag=tag)
                 for name, score in ((METRICS.correct, correct), (METRICS.supported, supported))]  # fmt: skip
        cases.append(case(str(number), retrieved, gold))
    found = classify(rows, cases, METRICS, k)
    assert [one.case for one in found] == [one.id for one in cases]
    right = [one for one in found if one.class_name.startswith("right")]
    wrong = [one for one in found if one.class_name.startswith("wrong")]
    assert all(one.correct is not None and one.correct >= 0.5 and one.supported is not None for one in right)
    assert all(one.correct is not None and one.correct < 0.5 for one in wrong)
    assert len(right) + len(wrong) == sum(one.class_name != NOT_KNOWN for one in found)
    for one in wrong:  # a longer prompt never takes a gold chunk out of it
        [more] = [w for w in classify(rows, cases, METRICS, k + 1) if w.case == one.case]
        order = ["wrong, retrieved below k", "wrong, in the prompt"]
        same = one.class_name == more.class_name
        assert same or [one.class_name, more.class_name] == order
    for one in shares(found):
        members = [each for each in found if one.slice_name in ("all", each.slice_tag or "(none)")]
        known = [each for each in members if each.class_name != NOT_KNOWN]
        assert one.count == sum(each.class_name == one.class_name for each in members)
        assert one.of == len(members if one.class_name == NOT_KNOWN else known)
        assert one.interval == (share_interval(one.count, one.of) if one.of else None)
    assert [one.class_name for one in shares(found)][: len(CLASSES)] == list(CLASSES)


def test_what_cannot_be_joined_is_not_known() -> None:
    rows = [judged(id_, "is_correct", 0.0) for id_ in "123"]
    rows[1] = replace(rows[1], answer="An older answer.")
    rows.append(replace(judged("5", "is_correct", 1.0), golden={"question": "q", "gold_chunk_ids": "g"}))
    cases = [case(id_, "a", "a") for id_ in "1245"]
    found = {one.case: (one.class_name, one.why) for one in classify(rows, cases, METRICS, None)}
    assert found == {
        "1": ("wrong, in the prompt", ""),
        "2": (NOT_KNOWN, "the file has a different answer than the one that was judged"),
        "3": (NOT_KNOWN, "no such case"),
        "4": (NOT_KNOWN, "no result"),
        "5": (NOT_KNOWN, "the file has a different question than the one that was judged"),
    }


def write(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(b"".join(map(json_line, rows)))
    return path


def test_the_command_counts_shows_and_writes(run: Any, result_row: Any, tmp_path: Path) -> None:
    ids = [str(number) for number in range(12)]
    rows = [
        result_row(id_, name, score) for id_ in ids for name, score in (("rag_zeval@contexts", 1), ("is_correct", 0))
    ]
    kinds = {"rag_zeval@contexts": "contexts", "is_correct": "truth"}
    rows = [{**row, "reference_kind": kinds[row["metric"]]} for row in rows]
    rows[0]["question"] = "[red]\x1b[2J :bug:\n" + "long " * 99
    rows[1] |= {"scores": [None], "statuses": ["failed: timeout"]}
    gold = [
        {"id": id_, "question": "?", "answer": f"Answer {id_}.", "context_ids": ["x", "a"], "gold_chunk_ids": ["a"]}
        for id_ in ids
    ]
    files = write(tmp_path / "results.jsonl", rows), write(tmp_path / "gold.jsonl", gold)
    shown = run("failures", *files, "--k", 1, "--out", "classes.jsonl")
    assert (shown.returncode, shown.stderr) == (0, "")
    right = "correct: is_correct ≥ 0.5 (judged by the ground truth)"
    assert f"{right}; supported: rag_zeval@contexts ≥ 0.5 (judged by the retrieved contexts)" in shown.stdout
    low, high = share_interval(11, 11)
    [line] = [line for line in shown.stdout.splitlines() if "all " in line and "below k" in line]
    assert line.split()[-6:] == ["11", "11", "1.000", f"{low:.3f}", "to", f"{high:.3f}"]
    assert "wrong, retrieved below k: 10 of 11" in shown.stdout and "not known: 1 of 1" in shown.stdout
    assert "is_correct: failed: timeout" in shown.stdout and "[red] [2J :bug: long" in shown.stdout
    assert "\x1b" not in shown.stdout and "long " * 30 not in shown.stdout
    written = read_jsonl(tmp_path / "classes.jsonl")
    assert [row["case"] for row in written] == ids and written[3]["class_name"] == "wrong, retrieved below k"
    assert written[3]["gold_rank"] == 2 and written[0]["question"] == rows[0]["question"]
    assert "wrong, in the prompt: 10 of 11" in run("failures", *files).stdout  # all of them stood in the prompt
    assert "right and supported: 10 of 12" in run("failures", *files, "--correct", "rag_zeval@contexts").stdout
    write(tmp_path / "gold.jsonl", [{"doc_ids": ["a"], "chunk_ids": ["x"], **row, "context_ids": None} for row in gold])
    assert "'doc_ids', 'chunk_ids' could each hold the ids of the retr" in run("failures", *files).stderr


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (["bleu@truth", "f1@contexts", "rag_zeval@truth", "rag_zeval@contexts"], "rag_zeval@truth rag_zeval@contexts"),
        (["bleu@truth", "is_correct", "rouge_l@contexts", "trulens_groundedness"], "is_correct trulens_groundedness"),
        (["ragchecker_hallucination@truth", "bleu@truth", "rag_zeval"], "bleu@truth rag_zeval"),
        (["ragchecker_hallucination@contexts", "ragas_faithfulness@contexts", "is_correct"],
         "is_correct ragas_faithfulness@contexts"),
    ],
)  # fmt: skip
def test_every_command_chooses_the_same_metrics(there: list[str], chosen: str) -> None:
    rows = [judged("1", name, 1.0) for name in there]
    found = choose_metrics(rows, None, None, 0.5)
    side = Side("x", {name: {"1": one} for name, one in zip(there, rows, strict=True)})
    gold = replace(rows[0], gold_chunk_ids=("a",), retrieved=("a",))
    side = replace(side, judged={name: {"1": replace(gold, metric=name, judge=name)} for name in side.judged})
    [joint] = with_measures(side, ["retrieved_and_supported@1"]).judged["retrieved_and_supported@1"].values()
    assert f"{found.correct} {joint.judge}" == f"{found.correct} {found.supported}" == chosen


BOTH, ONE = ("is_correct", "rag_zeval"), ("rag_zeval@truth",)
BAD = [
    (BOTH, ("--correct", "bleu"), "--correct: the results have no metric bleu; they have is_correct, rag_zeval"),
    (BOTH, ("--threshold", "nan"), "--threshold is nan"),
    (BOTH, ("--threshold", "50"), "--threshold is 50"),
    (BOTH, ("--out", "gold.jsonl"), "--out gold.jsonl is the same file as INPUT"),
    (BOTH, (), "the results and these files have no case in common: their ids differ"),
    (ONE, (), "the results have no metric of faithfulness, only rag_zeval@truth. Run `rag-zeval evaluate` with"),
    (
        ("ragchecker_hallucination", *BOTH),
        ("--correct", "ragchecker_hallucination"),
        "--correct: the lower ragchecker_hallucination is, the better",
    ),
]


@pytest.mark.parametrize(("metrics", "words", "message"), BAD)
def test_what_cannot_be_classified_is_one_line(
    run: Any, result_row: Any, tmp_path: Path, metrics: tuple[str, ...], words: tuple[str, ...], message: str
) -> None:
    write(tmp_path / "results.jsonl", [result_row("1", name, 1) for name in metrics])
    write(tmp_path / "gold.jsonl", [{"id": "2", "question": "?", "answer": "Answer 1."}])
    shown = run("failures", "results.jsonl", "gold.jsonl", *words)
    assert shown.returncode == 2 and shown.stderr.startswith(f"error: {message}") and shown.stderr.count("\n") == 1


def test_systems_with_retrievers_of_their_own_are_joined_to_their_own_files(
    run: Any, result_row: Any, tmp_path: Path
) -> None:
    rows = [
        result_row("1", metric, 0, id=f"{system}:1|{metric}", systems=[system], answers=["No."])
        for system in ("v1", "v2")
        for metric in ("is_correct", "rag_zeval")
    ]
    write(tmp_path / "results.jsonl", rows)
    for system, retrieved in (("v1", ["x"]), ("v2", ["a"])):
        row = {"id": 1, "q": "?", "answer": "No.", "context_ids": retrieved, "gold_chunk_ids": ["a"]}
        write(tmp_path / f"{system}.jsonl", [row])
    words = ("results.jsonl", "v1.jsonl", "v2.jsonl", "--map", "question=q", "--out", "classes.jsonl")
    shown = run("failures", *words)
    assert (shown.returncode, shown.stderr) == (0, "") and "v2:1" in shown.stdout
    written = read_jsonl(tmp_path / "classes.jsonl")
    found = [(row["system"], row["class_name"]) for row in written]
    assert found == [("v1", "wrong, not retrieved"), ("v2", "wrong, in the prompt")]


def test_systems_in_columns_of_their_own_are_judged_and_classified_by_the_same_options(
    run: Any, tmp_path: Path
) -> None:
    row = {"id": 1, "question": "?", "truth": "At nine.", "context_ids": ["a"], "gold_chunk_ids": ["a"]}
    gold = write(tmp_path / "gold.jsonl", [{**row, "no_rag_answer": None, "rag_answer": "At nine."}])
    columns = ("--map", "answer=no_rag_answer", "--map", "answer=rag_answer")
    judged = run("evaluate", gold, "--scorers", "string_match,rouge_l", "--out", "results.jsonl", *columns)
    assert judged.returncode == 0 and "answers by system: columns 'no_rag_answer', 'rag_answer'" in judged.stderr
    metrics = ("--correct", "string_match", "--supported", "rouge_l@truth")
    shown = run("failures", "results.jsonl", gold, *metrics, "--out", "classes.jsonl", *columns)
    assert (shown.returncode, shown.stderr) == (0, "")
    found = {row["system"]: row["class_name"] for row in read_jsonl(tmp_path / "classes.jsonl")}
    assert found == {"no_rag_answer": "not known", "rag_answer": "right and supported"}
