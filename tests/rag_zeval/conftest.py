import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from rag_zeval.cli import main
from rag_zeval.scripted_judge import ScriptedJudge


def judge_reply(n: int, supported: bool = True) -> str:
    """A well-formed reply of the "paper" variant: one claim for each of n candidates."""
    claim = {"claim": "It is so.", "is_supported": supported, "grounding_evidence": ["It is so."], "analysis": "Clear."}
    return json.dumps([{"id": "ABCD"[i], "answer": "a", "atomic_claims": [claim]} for i in range(n)])


@pytest.fixture
def endpoint(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies = judge_reply(1)
    return scripted_judge


@pytest.fixture
def reply_text() -> Callable[..., str]:
    return judge_reply


@pytest.fixture(scope="session")
def result_row() -> Callable[..., dict[str, Any]]:
    """A row of one answer as `rag-zeval evaluate` writes it, as far as others read it; keywords are its fields."""

    def row(case: str, metric: str, score: float | None, /, **fields: Any) -> dict[str, Any]:
        status = "ok" if score is not None else "failed: no reply"
        return {
            "id": f"{case}|{metric}", "case": case, "slice_tag": None, "metric": metric, "trial": 0,
            "systems": ["answer"], "question": f"Question {case}?", "reference": "It is so.",
            "answers": [f"Answer {case}."], "scores": [score], "statuses": [status], "status": status,
            "trajectory": None, "latency_s": None, **fields,
        }  # fmt: skip

    return row


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CompletedProcess[str]]:
    """Runs `rag-zeval` with these arguments in this process, in `tmp_path`; keywords are environment variables."""

    def run(*arguments: object, **environment: str) -> CompletedProcess[str]:
        for name, value in {"COLUMNS": "200", **environment}.items():
            monkeypatch.setenv(name, value)
        words = list(map(str, arguments))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["rag-zeval", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return CompletedProcess(words, int(stop.value.code or 0), shown.out, shown.err)

    return run


PEAK = """
import re
from rag_zeval.cli import main
try:
    main()
finally:
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.fixture
def run_measured(tmp_path: Path) -> Callable[..., tuple[str, int]]:
    """Runs `rag-zeval` in a process of its own: what it printed, and its memory at most in MiB.

    The process says that itself: what the system tells its parent holds the parent's own memory as well.
    """

    def run(*arguments: object) -> tuple[str, int]:
        line = [sys.executable, "-c", PEAK, *map(str, arguments)]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout, int(done.stdout.split()[-1])

    return run
