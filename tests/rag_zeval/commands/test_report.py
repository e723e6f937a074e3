"""`rag-zeval report` and `serve-report` as a user meets them; the page itself: tests/rag_zeval/report."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import json_line

CLAIM = {"claim": "c", "is_supported": True, "grounding_evidence": ["r"], "analysis": ""}
ROW: dict[str, Any] = {
    "id": "1|m", "case": "1", "slice_tag": None, "metric": "m", "trial": 0, "systems": ["$\\frac{", "b"],
    "question": "q", "reference": "r", "answers": ["a", "b"], "scores": [1, None],
    "statuses": ["ok", "failed: no claims"], "status": "failed: no claims",
    "trajectory": [{"atomic_claims": [CLAIM]}, {"atomic_claims": []}],
    "reply": None, "parts": {}, "calls": 1, "cached": 0, "prompt_tokens": None, "completion_tokens": 3, "seconds": 1,
    "latency_s": None,
}  # fmt: skip


def write(folder: Path, *rows: dict[str, Any]) -> None:
    """Write r.jsonl, of a good row and others."""
    (folder / "r.jsonl").write_bytes(b"".join(map(json_line, [ROW, *rows])))


def test_page_and_figures_are_written(run: Any, tmp_path: Path) -> None:
    write(tmp_path, {**ROW, "id": "2|m", "case": "2", "slice_tag": "s"}, {"id": "spent before", "calls": 7})
    done = run("report", "r.jsonl", "--html", "p.html", "--figures", "figures")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "report: p.html", *(f"figure: figures/{name}.png" for name in ("means", "histograms", "slices"))
    ]  # fmt: skip
    assert (tmp_path / "p.html").read_text().count('\n{"case":') == 2
    for path in (tmp_path / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_bad_row_is_named_before_anything_is_written(run: Any, tmp_path: Path) -> None:
    write(tmp_path, {**ROW, "id": "2|m", "case": "2", "question": 7})
    done = run("report", "r.jsonl", "--html", "p.html", "--figures", "figures")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: r.jsonl:2: field 'question' must be str, found int\n"
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


def test_no_page_shows_a_key_that_a_result_file_holds(run: Any, tmp_path: Path) -> None:
    key = "x7Qm-29fLpZ0-aaT41-kd83H"
    for name, supported in (("a", True), ("b", False)):
        claims = [{**CLAIM, "claim": key, "is_supported": supported}]
        told: dict[str, Any] = {
            "question": f"Q {key} \ud83d", "answers": [key], "metric": f"m {key}", "systems": ["s"],
            "scores": [float(supported)], "statuses": ["ok"], "trajectory": [{"atomic_claims": claims}],
        }  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**ROW, **told}) + "\n")  # by a process that did not know it
    for command in ("report", "compare", "metrics", "dashboard"):
        inputs = ["a.jsonl", "b.jsonl"][: 1 if command == "report" else 2]
        more = ("--metric", f"m {key}") if command == "dashboard" else ()
        done = run(command, *inputs, "--html", "p.html", *more, JUDGE_API_KEY=key)
        page = (tmp_path / "p.html").read_text()
        assert (done.returncode, key in page, "m [key]" in page) == (0, False, True), command + done.stderr
        (tmp_path / "p.html").unlink()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r.jsonl"], "nothing to write: add --html FILE or --figures FOLDER"),
        (["r.jsonl", "--html", "r.jsonl"], "--html r.jsonl is the same file as INPUT"),
        (["no.jsonl", "--html", "p.html"], "no.jsonl: cannot be read"),
        (["empty.jsonl", "--html", "p.html"], "empty.jsonl: no rows"),
        (["nan.jsonl", "--html", "p.html"], "nan.jsonl:1: not valid JSON: NaN is not a number"),
    ],
)
def test_what_cannot_be_used_is_one_line(words: list[str], said: str, run: Any, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "nan.jsonl").write_text(json.dumps({**ROW, "scores": [float("nan"), 1.0]}))
    done = run("report", *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path, no_proxy: None) -> None:
    write(tmp_path, {**ROW, "id": "2|m", "case": "2", "question": "Who?", "answers": ["Ann <b>", "b"]})
    line = [sys.executable, "-m", "rag_zeval", "serve-report", str(tmp_path / "r.jsonl"), "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        (address,) = re.findall(r"http://\S+", process.stdout.readline())
        with urllib.request.urlopen(address) as answer:
            page = answer.read().decode()
        assert "Who?" in page and "Ann <b>" not in page
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}../../etc/passwd")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "evil.example"}))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_a_port_that_cannot_be_had_is_one_line_that_names_it(run: Any, tmp_path: Path) -> None:
    write(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words in (["serve-report", "r.jsonl"], ["mock-judge"]):
            done = run(*words, "--port", port)
            said = f"error: port {port} of 127.0.0.1: Address already in use; choose another with --port\n"
            assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    done = run("serve-report", "r.jsonl", "--host", "192.0.2.1", "--port", "8080")
    assert done.returncode == 2 and done.stderr.startswith("error: port 8080 of 192.0.2.1: Cannot assign")
    done = run("mock-judge", "--port", "99999")
    assert done.returncode == 2 and done.stderr == "error: port 99999 of 127.0.0.1: must be 0 to 65535\n"
