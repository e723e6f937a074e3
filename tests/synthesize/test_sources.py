"""Questions from files and from the world."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from synthesize.sources import Tally, questions_sha256

GOOD = {"id": "a", "question": "who", "passage": "Somebody did."}
ROOT = Path(__file__).resolve().parents[2]
SURROGATE = "holds half a character (a lone surrogate)"
FAULTS = [
    ({"id": "b", "question": "who"}, "bad_field", "field 'passage' is missing"),
    ({**GOOD, "id": 7}, "bad_field", "field 'id' must be str, found int"),
    ({**GOOD, "id": "b", "passage": " \n"}, "empty", "field 'passage' is empty"),
    ({**GOOD, "id": "", "passage": "x"}, "empty", "field 'id' is empty"),
    ({**GOOD, "id": "b", "passage": "half \ud83d"}, "lone_surrogate", f"field 'passage' {SURROGATE}"),
    ({**GOOD, "id": "b \udc00"}, "lone_surrogate", f"field 'id' {SURROGATE}"),
    (GOOD, "duplicate_id", "duplicate id 'a'"),
    ('{"id": "b", ', "not_json", "not valid JSON"),
    ("[" * 100_000, "not_json", "not valid JSON"),
    ('{"id": ' + "7" * 5000 + "}", "not_json", "not valid JSON"),
    ("[1]", "not_json", "expected a JSON object"),
    (b'{"id": "\xff"}', "not_json", "not UTF-8 text"),
    ({"prompt": "x", "text": "y"}, "unknown_layout", "no layout has the fields 'prompt', 'text'"),
    ({}, "unknown_layout", "no layout has the fields (none)"),
]


@pytest.mark.parametrize("bad, reason, message", FAULTS)
def test_a_bad_row_is_counted_and_named_or_an_error(load, write_rows, tmp_path, bad, reason, message):
    source, tally = write_rows(tmp_path / "rows.jsonl", [GOOD, "", bad, {**GOOD, "id": "c"}]), Tally()
    assert [q.id for q in load(source, tally=tally)] == ["a", "c"]
    assert (tally.read, tally.usable, tally.left_out) == (3, 2, {reason: 1})
    [[named]] = tally.named.values()
    assert named.startswith(f"{source}:3: {message}")
    assert json.dumps(tally.as_row())
    with pytest.raises(InputError) as caught:
        load(source)
    assert str(caught.value) == named and "\n" not in named


def test_every_bad_row_is_counted_and_the_first_are_named(load, write_rows, tmp_path):
    empty, tally = {**GOOD, "id": "b", "passage": ""}, Tally()
    rows = [row for number in range(5) for row in ({**GOOD, "id": str(number)}, "{", empty)]
    load(write_rows(tmp_path / "rows.jsonl", rows), 5, tally=tally)
    assert tally.read == 15 and tally.left_out == {"not_json": 5, "empty": 5}
    lines = {reason: [int(named.split(":")[1]) for named in faults] for reason, faults in tally.named.items()}
    assert lines == {"not_json": [2, 5, 8], "empty": [3, 6, 9]}


@pytest.mark.parametrize("n_questions", [None, 1])
def test_with_nothing_usable_the_first_fault_stands_in_the_error(load, write_rows, tmp_path, n_questions):
    source = write_rows(tmp_path / "rows.jsonl", ["{", "[]"])
    with pytest.raises(InputError, match=r"holds no questions \(2 records, .* not_json 2; .*rows.jsonl:1: not valid"):
        load(source, n_questions, tally=Tally())


ROWS = [{**GOOD, "id": str(n), "passage": hashlib.sha256(str(n).encode()).hexdigest() * 5} for n in range(3000)]
WHOLE = gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode(), mtime=0)


@pytest.mark.parametrize(
    "name, content, rows",
    [
        ("0.jsonl.gz", b'{"id": "not compressed"}\n', 0),
        ("0.jsonl.gz", WHOLE[:10] + b"\xff" * 30, 0),
        ("0.parquet", b"PAR1", 0),
        ("0.parquet", b"PAR1" + b"\0" * 50 + b"PAR1", 0),
        *(("0.jsonl.gz", WHOLE[: max(5, int(kept * len(WHOLE)))], kept * 3000) for kept in (0, 0.001, 0.5, 0.99)),
    ],
)
def test_a_broken_file_gives_the_rows_before_the_break_and_the_next_is_read(
    load, write_rows, tmp_path, name, content, rows
):
    (tmp_path / name).write_bytes(content)
    write_rows(tmp_path / "1.jsonl", [{**GOOD, "id": "in the next file"}])
    tally = Tally()
    *before, last = load(tmp_path, tally=tally)
    assert last.id == "in the next file"
    assert [q.passage for q in before] == [row["passage"] for row in ROWS[: len(before)]]
    assert rows * 0.8 - 600 <= len(before) <= rows
    assert tally.left_out == {"unreadable": 1} and tally.usable == tally.read == len(before) + 1
    assert tally.named["unreadable"][0].startswith(f"{tmp_path / name}: cannot be read: ")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)


def test_a_source_without_files_is_an_error(load, tmp_path):
    (tmp_path / "notes.txt").write_text("{}")
    for source in (tmp_path, tmp_path / "*", tmp_path / "nowhere.jsonl"):
        with pytest.raises(InputError, match=r"no such file, and no file that ends in .*\.parquet"):
            load(source)


def test_files_are_read_whole_unless_drawn_from(load, write_rows, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", ({**GOOD, "id": str(n)} for n in range(30)))
    whole = load(source, seed=5)
    assert [q.id for q in whole] == [str(n) for n in range(30)] and whole[0].facts is None
    assert questions_sha256(load(source, 10, 5)) != questions_sha256(load(source, 10, 6)) != questions_sha256(whole)
    with pytest.raises(InputError, match="holds no questions"):
        load(write_rows(tmp_path / "empty.jsonl", []))


@pytest.fixture(scope="module")
def draw(load, write_rows, tmp_path_factory):
    """The ids drawn from rows in some order, and the tally; those in `long` are too long."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"

    def draw(order, n_questions, seed, long=()):
        tally = Tally()
        source = write_rows(path, ({**GOOD, "id": id_} for id_ in order))
        questions = load(source, n_questions, seed, tally=tally, too_long=lambda question: question.id in long)
        return [question.id for question in questions], tally

    return draw


@given(st.lists(st.integers(0, 10**30).map(str), unique=True, min_size=1, max_size=40), st.integers(0, 9), st.data())
def test_a_draw_depends_on_seed_and_ids_alone(draw, order, seed, data):
    long = set(data.draw(st.lists(st.sampled_from(order), max_size=len(order) - 1)))
    fitting = [id_ for id_ in order if id_ not in long]
    everything, _ = draw(fitting, len(fitting), seed)
    assert sorted(everything) == sorted(fitting)
    n_questions = data.draw(st.integers(1, len(fitting)))
    some, tally = draw(data.draw(st.permutations(order)), n_questions, seed, long)
    assert some == everything[:n_questions]  # too long ones take no place, the order in the file none either
    assert tally.left_out["too_long"] <= len(long) and tally.usable == len(order)
    with pytest.raises(
        InputError, match=f"holds {len(fitting)} questions, fewer than n_questions=.*too_long {len(long)}|none"
    ):
        draw(order, len(fitting) + 1, seed, long)


def test_a_draw_favours_no_place_in_the_file(draw):
    draws = Counter(id_ for seed in range(300) for id_ in draw(map(str, range(40)), 10, seed)[0])
    mean, sigma = 300 / 4, (300 * 0.25 * 0.75) ** 0.5
    assert len(draws) == 40 and all(abs(n - mean) < 5 * sigma for n in draws.values())


def test_only_what_comes_up_in_the_draw_is_measured(load, write_rows, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", ({**GOOD, "id": str(n)} for n in range(2000)))
    measured = []
    load(source, 10, too_long=lambda q: bool(measured.append(q.id)))
    assert 10 <= len(measured) == len(set(measured)) < 150  # about 10 (1 + ln 200)


MEASURE = """
import json, resource, sys, time
from rag_zeval.stages.config import check_settings
from synthesize.settings import Settings
from synthesize.sources import Tally, load_questions
tally, start = Tally(), time.monotonic()
drawn = load_questions(check_settings(Settings, json.loads(sys.argv[1])), tally, lambda q: len(q.passage) % 50 == 0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"drawn": len(drawn), "read": tally.read, "seconds": time.monotonic() - start, "mib": peak}))
"""


@pytest.mark.slow
def test_a_million_rows_stream_in_little_memory(settings, tmp_path):
    source = tmp_path / "rows.jsonl"
    with open(source, "w", encoding="utf-8") as file:
        for n in range(1_000_000):
            passage = f"It is said of number {n} that " + "it is a number, " * (20 + n % 10)
            file.write(json.dumps({"id": f"id-{n}", "question": f"what is {n}", "passage": passage}) + "\n")
    command = [sys.executable, "-c", MEASURE, settings(source=str(source), n_questions=5500).model_dump_json()]
    measured = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    print(measured)
    assert measured["drawn"] == 5500 and measured["read"] == 1_000_000
    assert measured["mib"] < 500 and measured["seconds"] < 300


@pytest.mark.skipif("RAG_ZEVAL_DATA" not in os.environ, reason="RAG_ZEVAL_DATA is not set")
def test_natural_questions_sample_loads(load):
    assert len(load(Path(os.environ["RAG_ZEVAL_DATA"]) / "natural_questions" / "nq_demo_100.jsonl")) == 100


def test_world_questions_know_their_facts(load):
    asked = load("nano", 5, 1, split="dev")
    assert len({q.id for q in asked}) == 5 and all(q.facts and q.id.startswith("nano-dev-1-") for q in asked)
    with pytest.raises(InputError, match="n_questions"):
        load("nano")


def test_a_split_of_files_goes_by_the_questions_words(load, write_rows, tmp_path):
    rows = [{**GOOD, "id": f"{at}", "question": f"Who wrote number {at}?"} for at in range(300)]
    other = [{**row, "id": f"x{row['id']}", "question": f" who  WROTE, number {row['id']}"} for row in reversed(rows)]
    source, renamed = write_rows(tmp_path / "a.jsonl", rows), write_rows(tmp_path / "b.jsonl", other)
    splits, tally = {}, Tally()
    for split in ("train", "dev", "test"):
        splits[split] = {q.id for q in load(source, split=split, tally=tally)}
        assert {q.id for q in load(renamed, split=split)} == {f"x{id_}" for id_ in splits[split]}
    assert sum(map(len, splits.values())) == 300 == len(set.union(*splits.values()))
    assert 10 < len(splits["dev"]) < 50 and 40 < len(splits["test"]) < 85
    assert tally.left_out == {"other_split": 600} and not tally.named
    assert len(load(source)) == 300


@pytest.mark.skipif("RAG_ZEVAL_DATA" not in os.environ, reason="RAG_ZEVAL_DATA is not set")
def test_the_real_questions_split_and_samples_that_everybody_saw_never_train(load):
    folder = Path(os.environ["RAG_ZEVAL_DATA"]) / "natural_questions"
    seen = {q.question for q in load(folder / "nq_demo_100.jsonl")}
    parts = {split: load(folder / "nq_open_oracle_2200.jsonl.gz", split=split) for split in ("train", "dev", "test")}
    assert sum(map(len, parts.values())) == 2200 and len(parts["train"]) >= 1490 and len(parts["test"]) >= 500
    assert all(q.gold_answers for part in parts.values() for q in part)
    assert not seen & {q.question for q in parts["train"]} and seen & {q.question for q in parts["test"]}


def test_questions_without_gold_answers_have_the_hash_they_had_before_there_were_any(load):
    [question] = load("nano", 1)
    row = {"facts": dict(question.facts), "id": question.id, "passage": question.passage, "question": question.question}
    assert questions_sha256([question]) == hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
