"""`rag-zeval serve-report` as a process of its own, looked at over HTTP."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest


def test_the_page_is_served_until_it_is_interrupted(tmp_path: Path, no_proxy: None) -> None:
    row = {
        "id": "1|m", "case": "1", "metric": "m", "trial": 0, "slice_tag": None, "systems": ["new"], "question": "Who?",
        "reference": "Ann.", "answers": ["Ann <b>"], "scores": [0.5], "statuses": ["ok"], "status": "ok",
        "trajectory": None, "reply": None, "parts": {}, "calls": 1, "cached": 0, "prompt_tokens": 1,
        "completion_tokens": 1, "paid_tokens": [1, 1], "seconds": 0.1, "latency_s": None, "model": None,
        "identity": "m", "input_sha256": "0",
    }  # fmt: skip
    (tmp_path / "r.jsonl").write_text(json.dumps(row) + "\n")
    line = [sys.executable, "-m", "rag_zeval", "serve-report", str(tmp_path / "r.jsonl"), "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        (address,) = re.findall(r"http://\S+", process.stdout.readline())
        with urllib.request.urlopen(address) as answer:
            page = answer.read().decode()
        assert "Who?" in page and "Ann <b>" not in page
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}../../etc/passwd")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
