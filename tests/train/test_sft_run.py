"""Real supervised steps through verl on the shipped base: undisturbed, and with a SIGKILL in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

STEPS, ROWS = 3, 4
Processes = Callable[[Path], list[str]]


def test_a_killed_run_ends_as_an_undisturbed_one(
    processes_of: Processes,
    wait_until: Callable[..., None],
    check_trained: Callable[[Path], None],
    nano_responses: Callable[..., str],
    repository: Path,
    tmp_path: Path,
) -> None:
    from safetensors.torch import load_file

    words = [f"responses={nano_responses(STEPS * ROWS)}", "rows=[{k: 4, rows: 12}]", "verl.trainer.total_epochs=1"]
    words += [f"verl.data.train_batch_size={ROWS}", f"verl.data.micro_batch_size_per_gpu={ROWS}"]

    def command(out_dir: Path) -> list[str]:
        return [sys.executable, "-m", "train.sft", *words, f"out_dir={out_dir}"]

    def run(out_dir: Path) -> str:
        done = subprocess.run(command(out_dir), cwd=repository, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert f"step {STEPS}/{STEPS}  loss " in run(undisturbed)
    first = killed / "metrics" / "attempt-1.jsonl"
    with subprocess.Popen(command(killed), cwd=repository, stdout=subprocess.DEVNULL) as stage:
        wait_until(lambda: first.exists() and first.read_text(), 150)
        stage.send_signal(signal.SIGKILL)
    assert not (killed / "manifest.json").exists()
    rows_before = (killed / "data" / "train.parquet").stat().st_mtime_ns
    run(killed)
    assert not processes_of(killed)
    assert (killed / "data" / "train.parquet").stat().st_mtime_ns == rows_before  # written once
    assert "done already" in run(killed)

    check_trained(undisturbed / "model")
    weights, again = (load_file(run / "model" / "model.safetensors") for run in (undisturbed, killed))
    assert all(weights[name].equal(again[name]) for name in weights)
    assert json.loads((undisturbed / "model" / "rag_zeval.json").read_text()) == {
        "world": "nano",
        "variant": "ranking-only",
    }
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["steps"] == STEPS and manifest["counts"]["train_rows"] == STEPS * ROWS
    assert not list((undisturbed / "checkpoints").glob("global_step_*"))  # the model folder is what is left
    logged = [json.loads(line) for line in (undisturbed / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in logged] == [1, 2, 3]
