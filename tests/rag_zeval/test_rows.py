"""Rows survive a kill at any moment, and one run at a time writes them."""

import sys
from itertools import accumulate
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval import files, rows
from rag_zeval.errors import InputError
from rag_zeval.files import json_line, read_jsonl
from rag_zeval.rows import RowWriter, StoredRows


@given(texts=st.lists(st.text(st.characters(exclude_categories=[])), max_size=5), cut=st.integers(0, 200))
def test_after_a_kill_at_any_byte_the_rows_are_whole_and_none_stands_twice(tmp_path_factory, texts, cut):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    with RowWriter(path) as writer:
        for row in rows:
            writer.append(row)
    size = max(0, path.stat().st_size - cut)
    path.write_bytes(path.read_bytes()[:size])
    ends = accumulate(len(json_line(row)) for row in rows)
    whole = [row["id"] for row, end in zip(rows, ends, strict=True) if end - len(b"\n") <= size]
    with RowWriter(path) as writer:
        assert [*writer.done] == whole  # also one that lacks only its end of line
        for row in rows:
            if row["id"] not in writer.done:
                writer.append(row)
        assert [*writer.done.values()] == rows
    assert read_jsonl(path) == rows


def test_a_row_written_twice_is_refused(tmp_path):
    with RowWriter(tmp_path / "r.jsonl") as writer:
        writer.append({"id": "a"})
        with pytest.raises(ValueError, match="already"):
            writer.append({"id": "a"})
    with open(tmp_path / "r.jsonl", "a") as file:
        file.write('{"id": "a"}\n')
    with pytest.raises(InputError, match=r"r\.jsonl:2: duplicate id"):
        RowWriter(tmp_path / "r.jsonl")


def test_a_file_that_another_run_writes_is_refused_and_free_when_it_ends(tmp_path):
    half_done = json_line({"id": "a"}) + b'{"id": "half of a row'
    (tmp_path / "r.jsonl").write_bytes(half_done)
    with RowWriter(tmp_path / "r.jsonl") as writer:
        with pytest.raises(InputError, match=r"r\.jsonl: another run is writing this file"):
            RowWriter(tmp_path / "r.jsonl")
        assert (tmp_path / "r.jsonl").read_bytes() == half_done  # nothing is cut
        writer.append({"id": "b"})
    with RowWriter(tmp_path / "r.jsonl") as writer:
        assert list(writer.done) == ["a", "b"]


def test_a_run_that_could_not_begin_leaves_no_file(tmp_path):
    for name, there in (("new", False), ("old", True)):
        if there:
            (tmp_path / name).touch()
        with pytest.raises(InputError, match="no such model"), RowWriter(tmp_path / name):
            raise InputError("no such model")
        assert (tmp_path / name).exists() == there


def row(number, text="ä\n"):
    return {"id": str(number), "text": text * number}


def written(path, numbers):
    path.write_bytes(b"".join(json_line(row(n)) for n in numbers))
    return path


def test_a_kill_at_any_line_while_rows_are_taken_out_loses_none(tmp_path):
    path, again = written(tmp_path / "r.jsonl", range(5)), {"1", "4"}
    left = set()  # what stands in the folder at some line: a kill leaves all that the operating system was handed

    def settle():
        with RowWriter(path) as writer:
            writer.settle(again & set(writer.done))

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in (files.__file__, rows.__file__):
            return None
        left.add(tuple((each.name, each.read_bytes()) for each in sorted(tmp_path.iterdir())))
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    settle()
    sys.settrace(tracing)

    stays = {str(n): row(n) for n in (0, 2, 3)}
    for content in left:
        (tmp_path / "r.jsonl.part").unlink(missing_ok=True)
        for name, text in content:
            (tmp_path / name).write_bytes(text)
        with RowWriter(path) as writer:
            found = dict(writer.done)
            assert {id_: each for id_, each in found.items() if id_ not in again} == stays
        settle()
        assert read_jsonl(path) == list(stays.values())
        assert [each.name for each in tmp_path.iterdir()] == ["r.jsonl"]
    assert len(left) == 4  # the old file; beside it an empty and a whole new one; the new file alone


@given(again=st.sets(st.integers(0, 5)), cut=st.integers(1, 30))
def test_rows_are_taken_out_in_place_and_the_others_stay_as_they_were(tmp_path_factory, again, cut):
    path = written(tmp_path_factory.mktemp("rows") / "rows.jsonl", range(6))
    whole = path.read_bytes()
    path.chmod(0o640)
    path.write_bytes(whole + json_line(row(9))[: -1 - cut])
    with RowWriter(path) as writer:
        assert path.read_bytes() != whole  # opening changes nothing
        writer.settle([str(n) for n in again])
        assert path.read_bytes() == b"".join(json_line(row(n)) for n in range(6) if n not in again)
        assert list(writer.done) == [str(n) for n in range(6) if n not in again]
        with pytest.raises(InputError, match="another run is writing this file"):
            RowWriter(path)
        writer.append(row(9))
        assert writer.done["9"] == row(9)
    assert path.stat().st_mode & 0o777 == 0o640 and [each.name for each in path.parent.iterdir()] == ["rows.jsonl"]
    assert [each["id"] for each in read_jsonl(path)] == [*(str(n) for n in range(6) if n not in again), "9"]


def test_all_rows_are_read_from_a_file_that_is_opened_once(tmp_path, monkeypatch):
    stored = StoredRows(written(tmp_path / "r.jsonl", range(9)), dict)
    opening = Mock(side_effect=open)
    monkeypatch.setattr(rows, "open", opening, raising=False)
    assert [*stored.values()] == [row(n) for n in range(9)]
    assert opening.call_count == 1


def test_a_row_that_another_hand_moved_is_never_read_as_another(tmp_path):
    path = written(tmp_path / "r.jsonl", [11, 12, 13])
    with RowWriter(path) as writer:
        written(path, [13, 12, 11])
        with pytest.raises(InputError, match=r"r\.jsonl: row '11': has moved"):
            writer.done["11"]


@pytest.mark.parametrize("content", [b"notes", b'{"other": 1}', b'{"id": 5}', b"\xff\n", b'{"id": "a"}\n\n', b"5\n"])
def test_what_is_no_file_of_rows_is_left_alone(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"r\.jsonl:"):
        RowWriter(path)
    assert path.read_bytes() == content and [each.name for each in tmp_path.iterdir()] == ["r.jsonl"]


def test_what_is_written_in_place_of_rows_on_a_full_disk_is_named_and_nothing_is_left(tmp_path):
    import resource

    path = written(tmp_path / "r.jsonl", range(4))
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RowWriter(path) as writer:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 5, limits[1]))
        try:
            with pytest.raises(OSError, match=r"r\.jsonl'$"):
                writer.append(row(5))
            assert path.read_bytes() == whole
            resource.setrlimit(resource.RLIMIT_FSIZE, (5, limits[1]))
            with pytest.raises(OSError, match=r"r\.jsonl'$"):
                writer.settle(["1"])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == whole and [each.name for each in tmp_path.iterdir()] == ["r.jsonl"]
        writer.append(row(5))
    assert read_jsonl(path) == [row(n) for n in (0, 1, 2, 3, 5)]
