"""The Python of docs/evaluate.md where people run it: in a notebook, in asynchronous code, in threads."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from rag_zeval.scripted_judge import ScriptedJudge

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evaluate.md"
MODEL = '"openai:gpt-4o-mini"'


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
        assert [one["ename"] for one in outputs if one["output_type"] == "error"] in (
            ["KeyboardInterrupt"],
            ["CancelledError"],
        )
        assert [json.loads(line)["scores"] for line in (tmp_path / file).read_text().splitlines()] == [[1.0], [1.0]]
    assert last[-1]["data"]["text/plain"] == "[0.5]"
