"""Errors name file, line and field; a file is written whole or not at all."""

import json
import os
import resource
import subprocess
import sys
from functools import partial

import pytest

from rag_zeval.errors import InputError
from rag_zeval.files import (
    COUNT,
    NONE,
    Maybe,
    check_fields,
    check_object,
    check_writable,
    first_difference,
    iter_jsonl,
    iter_unique,
    locate,
    read_json,
    read_jsonl,
    write_chunks,
    write_json,
    write_text,
)
from rag_zeval.rows import RowWriter

read_list = partial(read_json, kind=list)


def read_lines(path):
    return read_jsonl(path, {"question": str, "passage": str})


LINE = b'{"question": "q", "passage": "p"}\n'


@pytest.mark.parametrize(
    ("content", "read", "message"),
    [
        (LINE + b"{\n", read_lines, ":2: not valid JSON"),
        (LINE + b'{"question": 3, "passage": "p"}\n', read_lines, ":2: field 'question' must be str, found int"),
        (
            LINE + b'{"question": "q", "passage"\n',
            read_lines,
            ":2: not valid JSON: Expecting ':' delimiter at column 28",
        ),
        (LINE + b"\xff\xfe\n", read_lines, ":2: not UTF-8"),
        (None, read_lines, ": cannot be read"),
        (None, read_json, ": cannot be read: No such file or directory"),
        (b"\xff", read_json, ": not UTF-8 text: invalid start byte at byte 0"),
        (b'{\n "a": }', read_json, ":2: not valid JSON: Expecting value at column 7"),
        (b"9" * 5_000, read_list, ": not valid JSON: a number has more than 300 digits"),
        (b"[1e999]", read_list, ": not valid JSON: 1e999 is too large a number"),
        (b"[-Infinity]", read_list, ": not valid JSON: -Infinity is not a number"),
        (b"[NaN]", read_list, ": not valid JSON: NaN is not a number"),
        (b"[1]", read_json, ": expected a JSON object, found list"),
        (b"{}", read_list, ": expected a JSON list, found dict"),
    ],
)
def test_a_file_that_is_not_what_was_asked_for_is_named(tmp_path, content, read, message):
    path = tmp_path / "in.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "is_named"), [("in.csv", True), ("IN.XLSX", True), ("in.jsonl", False), ("in", False)]
)
def test_a_table_given_for_jsonl_is_named(tmp_path, name, is_named):
    (tmp_path / name).write_text("question,answer\n")
    with pytest.raises(InputError, match=":1: not valid JSON") as error:
        read_lines(tmp_path / name)
    assert ("the file must be JSONL, with one JSON object in each line, not ." in str(error.value)) == is_named


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    (tmp_path / "in.json").write_text("\ufeff[1]")
    assert read_list(tmp_path / "in.json") == [1]


def test_a_field_of_any_value_is_checked():
    assert check_object("x", {"a": True}, {"a": bool}) == {"a": True}
    for value, message in (
        ([], "x: row 3: expected a JSON object, found list"),
        ({}, "x: row 3: field 'a' is missing"),
        ({"a": True}, "x: row 3: field 'a' must be int or float, found bool"),
    ):
        with pytest.raises(InputError, match=f"^{message}$"):
            check_object("x: row 3", value, {"a": (int, float)})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ([str], [[], ["a"]], {"list, found str": "a", "item 2 must be str, found int": ["a", 1]}),
        (
            COUNT,
            [0, 2**63 - 1],
            {"must be a whole number, 0 or more": -1, "int, found float": 1.0, "below 2^63": 2**63},
        ),
        ((float, int, NONE), [1e18, None], {"below 2^63": 1e308, "found bool": False, "must be a number": -(10**299)}),
        ({"a": str, "b": Maybe([int])}, [{"a": ""}], {"'a' is missing": {}, "'b': item 1": {"a": "", "b": [""]}}),
        ({str: ([COUNT], NONE)}, [{"x": None, "y": [1]}], {"'y': item 1": {"y": [-1]}, "list or NoneType": {"y": 1}}),
    ],
)
def test_a_field_is_checked_with_all_that_it_holds(kind, good, bad):
    for value in good:
        assert check_fields({"x": value}, {"x": kind})
    for said, value in bad.items():
        with pytest.raises(InputError, match=r"^field 'x'") as error:
            check_fields({"x": value}, {"x": kind})
        assert said in str(error.value)


def test_an_id_stands_once(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a"}\n\n{"id": "b"}\n{"id": "a"}\n')
    with pytest.raises(InputError, match=r"in.jsonl:4: duplicate id 'a', as in line 1: remove one$"):
        list(iter_unique(path, {}))


def test_of_a_file_that_grows_the_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n\n{"a": 2}\n{"a": 3}')
    assert [row["a"] for _, row in iter_jsonl(path)] == [1, 2, 3]
    assert list(iter_jsonl(path, growing=True)) == [(1, {"a": 1}), (3, {"a": 2})]


def test_a_place_is_named_once():
    for message in ("no rows", "a.jsonl: no rows", "a.jsonl:1: no rows"):
        with pytest.raises(InputError, match=r"^a.jsonl:(1:)? no rows$"), locate("a.jsonl"):
            raise InputError(message)


def test_a_torn_line_is_told_with_what_repairs_it(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    with pytest.raises(InputError, match="if a run that wrote it was interrupted, run the same command again"):
        read_jsonl(path)
    for content in (b'{"a": 1\n{"a": 2', b"[1]"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"in.jsonl:1: [^;]*$"):
            read_jsonl(path)


def test_two_runs_differ_in_the_first_setting_that_is_not_the_same():
    run = {"seed": 1, "train": {"lr": 0.5, "steps": [1, 2]}, "more": {}}
    assert first_difference(run, json.loads(json.dumps(run))) is None
    assert first_difference(run, {**run, "train": {"lr": 0.5, "steps": [1]}}) == "train.steps"
    assert first_difference(run, {"seed": 1}) == "train.lr" and first_difference({}, {"new": None}) is None
    assert first_difference({"a": {"b": {}}}, {"a": {}}) is None


def test_nan_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "x.json", {"value": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_a_full_disk_is_named_and_what_was_there_stays(tmp_path):
    page = tmp_path / "report.html"
    page.write_text("an older report")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        with pytest.raises(OSError, match=r"report\.html'$"):
            write_chunks(page, [b"x" * 1000] * 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert page.read_text() == "an older report" and list(tmp_path.iterdir()) == [page]


def test_no_planted_link_is_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("theirs")
    for name in ("row.jsonl.part", f"page.html.{os.getpid()}.part"):
        (tmp_path / name).symlink_to(other)
    check_writable(tmp_path / "page.html")
    (tmp_path / f"page.html.{os.getpid()}.part").symlink_to(other)
    write_text(tmp_path / "page.html", "ours")
    with RowWriter(tmp_path / "row.jsonl") as rows:
        rows.append({"id": "a"})
        rows.settle(["a"])
    assert other.read_text() == "theirs" and (tmp_path / "page.html").read_text() == "ours"
    assert {path.name for path in tmp_path.iterdir()} == {"other", "page.html", "row.jsonl"}


def test_two_processes_may_write_one_file(tmp_path):
    program = (
        "import sys; from rag_zeval.files import write_text\nfor _ in range(500): write_text(sys.argv[1], sys.argv[2])"
    )
    written = tmp_path / "config.yaml"
    line = [sys.executable, "-c", program, str(written)]
    writers = [subprocess.Popen([*line, letter * 1000], stderr=subprocess.PIPE) for letter in "ab"]
    assert [writer.communicate()[1] for writer in writers] == [b"", b""]
    assert written.read_text() in ("a" * 1000, "b" * 1000) and list(tmp_path.iterdir()) == [written]
