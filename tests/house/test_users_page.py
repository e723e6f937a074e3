"""The pages where people run something: each command, and the Python.

docs/evaluate.md: every command, in its order, against the mock judge of the wheel; its Python in a notebook, in
asynchronous code, in threads. docs/quickstart.ipynb: every cell, with commands as processes of their own, in an empty
folder, without a key or a network.
"""

import ast
import asyncio
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from commands import run_here

from rag_zeval.scripted_judge import ScriptedJudge

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "evaluate.md"
STATUSES = {"gate": {0, 1}, "audit": {0, 1}, "check-set": {1}}  # else 0; a set of six questions is no golden set
SLICES = ("billing", "login")


def commands() -> list[list[str]]:
    """The commands in the page's blocks, without their comments; `...` stands for the judge."""
    lines = re.findall(r"^    (rag-zeval .*?)(?:\s+#.*)?$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line.replace("...", "--model openai:gpt-4o-mini")) for line in lines]


def rows(worse: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "question": f"What of {n}?",
            "answer": f"Ann has {n} cats. Bob has {n + (worse and n % 2)} dogs.",
            "contexts": json.dumps([f"Ann has {n} cats.", f"Bob has {n} dogs."]),
            "truth": f"Ann has {n} cats. Bob has {n} dogs.",
            "slice_tag": SLICES[n % 2],
        }
        for n in range(1, 61)
    ]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, worse in {"answers": False, "old": False, "new": True}.items():
        write_csv(tmp_path / f"{name}.csv", rows(worse))
    write_csv(tmp_path / "questions.csv", [{"id": row["id"], "source": "a manual"} for row in rows()])
    outputs, docs = [{"text": "Ann has cats."}], [{"body": "Ann has cats."}]
    logged = {"inputs": {"question": "Who?"}, "outputs": outputs, "docs": docs}
    (tmp_path / "log.jsonl").write_text(json.dumps(logged) + "\n")
    (tmp_path / "prices.json").write_text('{"judge": {"prompt": 0.1, "completion": 0.1}}')
    (tmp_path / "manuals").mkdir()
    for at, town in enumerate("ABCDEFGHIJKLMNOPQRST"):
        shire = [f"{town} lies in Shire{at // 4}."]  # which documents share, so that questions may join them
        facts = shire + [f"The ferry to {town}{n} goes at {n} in the morning from pier {n}{town}." for n in range(1, 9)]
        (tmp_path / "manuals" / f"{town}.txt").write_text("\n\n".join(facts))
    return tmp_path


@pytest.fixture
def judge(site: Path, no_proxy: None) -> Iterator[str]:
    line = [sys.executable, "-m", "rag_zeval", "mock-judge"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    with subprocess.Popen(line, env=environment, cwd=site, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield re.findall(r"openai:\S+/v1", process.stdout.readline())[0]
        process.kill()


@pytest.fixture
def rag_system(scripted_judge: ScriptedJudge) -> str:
    """A RAG system that finds two chunks and answers with the first."""
    docs = [{"id": f"A.txt#{n}", "text": f"The ferry to A{n} goes at {n}."} for n in (1, 2)]
    scripted_judge.replies = lambda body: {"status": 200, "body": {"answer": docs[0]["text"], "docs": docs}}
    return f"{scripted_judge.url}/ask"


def label(sheet: Path) -> None:
    """Fill in a labelling sheet: nine of ten claims are supported."""
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        labelled = [{**row, "label": "no" if at % 10 == 0 else "yes"} for at, row in enumerate(reader)]
    write_csv(sheet, labelled)


def test_every_command_of_the_users_page_runs(folder: Path, judge: str, rag_system: str) -> None:
    shown = {}
    ran = commands()
    assert {words[1] for words in ran} >= {
        "evaluate", "compare", "gate", "questions", "collect", "check-set", "retrieval", "failures", "sample", "audit"
    }  # fmt: skip
    for words in ran:
        if words[1] == "mock-judge":
            continue
        if words[1] == "audit":
            label(folder / "sheet.csv")
        arguments = [
            re.sub(r"^openai:(gpt-4o-mini|judge@.*)$", judge, word).replace("http://my-rag/ask", rag_system)
            for word in words[1:]
        ]
        done = run_here(["rag_zeval", *arguments], folder)
        assert done.status in STATUSES.get(words[1], {0}), f"{shlex.join(words)}\n{done.said}"
        shown[words[1]] = done.said
    assert (folder / "report.html").stat().st_size > 10_000
    assert "billing" in shown["compare"] and "login" in shown["compare"]
    assert "kappa" in shown["audit"].lower() and "nDCG" in shown["retrieval"]


MODEL = '"openai:gpt-4o-mini"'
NOTEBOOK = DOCS / "quickstart.ipynb"
SECONDS = 120  # what the notebook promises


def blocks(judge: ScriptedJudge) -> list[str]:
    """The Python of the page, with this judge in the place of the one that it names."""
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 3 and found[0].count(MODEL) == 1 and not any(MODEL in block for block in found[1:])
    return [block.replace(MODEL, repr(judge.spec())) for block in found]


def run_in_a_loop(code: list[str]) -> dict[str, Any]:
    """What the names of the blocks hold after they ran inside a running event loop."""
    names: dict[str, Any] = {}

    async def main() -> None:
        for block in code:
            result = eval(compile(block, PAGE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if result is not None:
                await result

    asyncio.run(main())
    return names


def run_in_a_thread(code: list[str]) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run_in_a_loop, code).result()


@pytest.mark.parametrize("run", [run_in_a_loop, run_in_a_thread])
def test_it_runs_in_asynchronous_code(
    run: Callable[[list[str]], dict[str, Any]],
    literal_judge: ScriptedJudge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(blocks(literal_judge))
    assert [one.score for one in names["results"]] == [0.5, 1.0] and names["evaluation"].scores == [1.0, 0.0]
    assert [one.question for one in names["doubtful"]] == ["When does the museum open?"]


INTERRUPTED = """
rows = [{"question": "?", "answer": f"It is {n}.", "contexts": [f"It is {n}."]} for n in range(9)]
results = %sevaluate(rows, model=judge, out=%r, concurrency=1)
"""


def test_it_runs_in_a_notebook_whose_cells_can_be_interrupted(
    literal_judge: ScriptedJudge, tmp_path: Path, jupyter: dict[str, Any]
) -> None:
    cells = [nbformat.v4.new_code_cell(block) for block in blocks(literal_judge)]
    interrupted = [INTERRUPTED % ("", "plain.jsonl"), INTERRUPTED % ("await a", "awaited.jsonl")]
    cells += [nbformat.v4.new_code_cell(code) for code in (*interrupted, "[one.score for one in doubtful]")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, interrupt_on_timeout=True, allow_errors=True, **jupyter)
    with client.setup_kernel():
        for at, cell in enumerate(cells):
            client.timeout = 2 if cell.source in interrupted else 60
            literal_judge.faults = ["ok", "ok", "hang"] if cell.source in interrupted else []
            started = time.monotonic()
            client.execute_cell(cell, at)
            assert time.monotonic() - started < 15
    first, second, third, plain, awaited, last = ([dict(one) for one in cell.outputs] for cell in cells)
    tables = [one["data"]["text/plain"] for one in first if one["output_type"] == "execute_result"]
    assert len(tables) == 1 and re.search(r"0 .*museum.* 0\.5 +ok\n1 .*ferry.* 1\.0 +ok", tables[0])
    printed = [one for one in first if one["output_type"] == "stream"]
    text = "".join(one["text"] for one in printed)
    assert {one["name"] for one in printed} == {"stderr"} and text.startswith("DataFrame: 2 cases")
    assert text.splitlines()[-1].startswith("rag_zeval@contexts: 2/2")
    assert second[-1]["data"]["text/plain"] == "[1.0, 0.0]" and third == []
    for outputs, file in ((plain, "plain.jsonl"), (awaited, "awaited.jsonl")):
        said = {one["ename"] for one in outputs if one["output_type"] == "error"}  # a slow kernel is interrupted twice
        assert said in ({"KeyboardInterrupt"}, {"CancelledError"})
        assert [json.loads(line)["scores"] for line in (tmp_path / file).read_text().splitlines()] == [[1.0], [1.0]]
    assert last[-1]["data"]["text/plain"] == "[0.5]"


def shown(cell: Any) -> str:
    """All that a cell printed or showed, as text."""
    return "".join(one.get("text", "") + one.get("data", {}).get("text/plain", "") for one in cell.outputs)


def test_the_quick_start_runs_and_its_gate_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jupyter: dict[str, Any]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # as if activated
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):  # where nothing listens: this machine alone can be reached
        for spelt in (name, name.lower()):
            monkeypatch.setenv(spelt, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    started = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=SECONDS, **jupyter).execute()  # raises where a cell does
    assert time.monotonic() - started < SECONDS
    code = {cell.source: shown(cell) for cell in notebook.cells if cell.cell_type == "code"}
    [gate] = [text for source, text in code.items() if "rag-zeval gate" in source]
    assert "exit status: 1" in gate and "price" in gate
    [compared] = [text for source, text in code.items() if "rag-zeval compare" in source]
    assert "price" in compared and "-0.333" in compared  # ten of fifteen answers now have a second, false claim
    assert (tmp_path / "quickstart" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "quickstart" / "new.results.jsonl").read_text().count("\n") == 30


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)
