from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.datasets import download as data
from eval_benchmarks.datasets.labelled.description import DataFile
from rag_zeval.errors import InputError


class Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.ranges.append(asked)
        body = self.server.files.get(self.path)
        if body is None:
            return self.send_error(404)
        start = int(re.sub(r"\D", "", asked)) if asked and self.server.with_ranges else 0
        if (start and start >= len(body)) or self.server.refuses:
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", self.server.length or str(len(body) - start))
        self.end_headers()
        stop, self.server.break_after = self.server.break_after, None
        self.wfile.write(body[start:][:stop])

    def log_message(self, *args: Any) -> None:
        pass


class FileServer(ThreadingHTTPServer):
    """Serves `files` by route, ranges as well; it breaks off after `break_after` bytes of a body, once.

    refuses: whether it answers every request with HTTP 416. length: what it says of every body instead of its length.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/there.json": BODY}
        self.ranges: list[str | None] = []
        self.break_after: int | None = None
        self.with_ranges, self.refuses = True, False
        self.length: str | None = None
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


BODY = bytes(range(256)) * 1000
FILE = DataFile(path="folder/file.json", server="github", route="/there.json", sha256=hashlib.sha256(BODY).hexdigest())


def test_a_file_is_fetched_checked_and_then_left_alone(server: FileServer, tmp_path: Path) -> None:
    assert data.get(FILE, server.url, tmp_path).startswith("downloaded")
    assert (tmp_path / "folder/file.json").read_bytes() == BODY
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["file.json"]
    assert data.get(FILE, server.url, tmp_path) == "already there"
    assert len(server.ranges) == 1


@pytest.mark.parametrize("with_ranges", [True, False])
def test_a_broken_download_goes_on_or_starts_again(server: FileServer, tmp_path: Path, with_ranges: bool) -> None:
    server.break_after, server.with_ranges = 100_000, with_ranges
    with pytest.raises(InputError, match="ended early"):
        data.get(FILE, server.url, tmp_path)
    assert not (tmp_path / "folder/file.json").exists()
    data.get(FILE, server.url, tmp_path)
    assert (tmp_path / "folder/file.json").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-"]


def test_bytes_that_are_no_beginning_are_thrown_away(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/there.json.part").write_bytes(BODY + b"more")
    data.get(FILE, server.url, tmp_path)
    assert (tmp_path / "folder/file.json").read_bytes() == BODY


def test_a_wrong_checksum_removes_the_file_and_keeps_the_old_one(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file.json").write_text("old")
    server.files["/there.json"] = b"something else"
    with pytest.raises(InputError, match=r"/there\.json: sha256 is [0-9a-f]{64}, expected [0-9a-f]{64}; .* removed"):
        data.get(FILE, server.url, tmp_path)
    assert {p.name: p.read_text() for p in (tmp_path / "folder").iterdir()} == {"file.json": "old"}


def wikieval_parquet(path: Path, rows: int, **changes: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    row = {"question": "Question: é?", "answer": "a", "context_v1": ["c"], "poor_answer": "p", "ungrounded_answer": "u"}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**row, **changes}] * rows), path)
    return path.read_bytes()


def questions(rows: int, **changes: Any) -> bytes:
    row = {"question": "who?", "answers": ["she"], "ctxs": [{"title": "T", "text": "It was she.", "hasanswer": True}]}
    return gzip.compress(f"{json.dumps({**row, **changes})}\n".encode() * rows, mtime=0)


def test_the_command_brings_everything_with_licences(
    server: FileServer, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    every = {file.path: (file, licence) for file, licence in data.downloads()}
    bodies = {file.route: b'{"a": 1}\n' * (file.rows or 1) for file, _ in every.values()}
    bodies[every["wikieval/wikieval.jsonl"][0].route] = wikieval_parquet(tmp_path / "x", 50)
    bodies[every["natural_questions/nq-open-oracle.jsonl"][0].route] = questions(2655)
    bodies |= {file.route: b"14 0 a 2\n" for path, (file, _) in every.items() if path.startswith("trec")}
    server.files = bodies
    words = [f"data_dir={tmp_path / 'data'}", f"download.github={server.url}", f"download.hub={server.url}/"]
    assert data.main(words) == 2  # RAGChecker's two and FaithBench's are not the files we know
    shown = capsys.readouterr()
    assert shown.err.count("error: ") == 3 and shown.err.count("\n") == 3
    assert {path for path, (file, _) in every.items() if file.sha256} == {
        "faithbench/FaithBench.csv",
        "ragchecker_meta/human_labeled_data.json",
        "ragchecker_meta/baseline_ragchecker.json",
    }
    assert "aggrefact is not downloaded here" in shown.out and "lytang/LLM-AggreFact" in shown.out
    assert "never redistribute" in shown.out and "CC BY-SA 3.0" in shown.out
    for path in (
        "ragtruth/response.jsonl",
        "ragtruth/source_info.jsonl",
        "wice/test.jsonl",
        "trec/qrels.rag25.test.txt",
    ):
        assert (tmp_path / "data" / path).read_bytes() == bodies[every[path][0].route]
    rows = [json.loads(line) for line in (tmp_path / "data/wikieval/wikieval.jsonl").read_text().splitlines()]
    assert len(rows) == 50 and rows[0]["context_v1"] == ["c"] and rows[0]["question"] == "Question: é?"
    known = [
        (file.model_copy(update={"sha256": hashlib.sha256(bodies[file.route]).hexdigest()}), licence)
        for file, licence in every.values()
        if file.sha256
    ]
    monkeypatch.setattr(data, "downloads", lambda: known)
    assert data.main(words) == 0
    assert "Apache-2.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("download.hub=there", "download.hub: must be an address that begins with http:// or https://, found there"),
        ("data_dir={file}/data", "directory"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(
    server: FileServer, tmp_path: Path, capsys: Any, word: str, message: str
) -> None:
    (tmp_path / "file").write_text("")
    words = [f"data_dir={tmp_path / 'data'}", f"download.github={server.url}", f"download.hub={server.url}"]
    assert data.main([*words, word.format(file=tmp_path / "file")]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ") and message in shown.err and shown.err.count("\n") == 1
    assert server.ranges == [] and shown.out == ""


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("wikieval", lambda path: b"<html>", "not a parquet file"),
        ("wikieval", lambda path: wikieval_parquet(path, 49), "expected 50 rows, found 49"),
        (
            "wikieval",
            lambda path: wikieval_parquet(path, 50, poor_answer=None),
            "line 1: field 'poor_answer' must be str",
        ),
        ("natural_questions", lambda path: b"<html>", "not a gzip file"),
        ("natural_questions", lambda path: questions(2655)[:-9], "not a gzip file"),
        ("natural_questions", lambda path: questions(3), "expected 2655 rows, found 3"),
        ("natural_questions", lambda path: questions(3, answers="she"), "line 1: field 'answers'"),
        ("trec/qrels.rag25.test.txt", lambda path: b"<html>", "expected 4 fields"),
        ("trec/qrels.rag25.test.txt", lambda path: b"14 0 a 2\n14 0 a -2\n", "field 'grade' must be"),
    ],
)
def test_content_without_a_known_checksum_is_looked_at(
    server: FileServer, tmp_path: Path, name: str, body: Any, message: str
) -> None:
    [download] = [file for file, _ in data.downloads() if file.path.startswith(name)]
    server.files[download.route] = body(tmp_path / "x")
    with pytest.raises(InputError, match=rf"{server.url}.*{message}.*; the file was removed"):
        data.get(download, server.url, tmp_path)
    assert not list((tmp_path / download.path).parent.iterdir())


def test_odd_replies_are_one_line_or_do_no_harm(server: FileServer, tmp_path: Path) -> None:
    server.refuses = True
    with pytest.raises(InputError, match=r"there\.json: cannot be downloaded: HTTP 416"):
        data.get(FILE, server.url, tmp_path)
    server.refuses, server.length = False, "long"
    assert data.get(FILE, server.url, tmp_path) == "downloaded, sha256 as expected"


def test_a_server_that_is_not_there_is_one_line(server: FileServer, tmp_path: Path) -> None:
    server.files.clear()
    with pytest.raises(InputError, match=r"there\.json: cannot be downloaded: HTTP 404"):
        data.get(FILE, server.url, tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match=r"there\.json: cannot be downloaded: .*refused"):
        data.get(FILE, server.url, tmp_path)
