"""Real supervised steps through verl on the shipped base: undisturbed, and with SIGKILLs in between."""

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
    words += ["verl.trainer.save_freq=1", "verl.checkpoint.save_contents=[hf_model,model,optimizer,extra]"]

    def command(out_dir: Path) -> list[str]:
        return [sys.executable, "-m", "train.sft", *words, f"out_dir={out_dir}"]

    def run(out_dir: Path) -> str:
        done = subprocess.run(command(out_dir), cwd=repository, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert f"step {STEPS}/{STEPS}  loss " in run(undisturbed)
    for attempt in (1, 2):  # killed after a step of its own: which one, the machine's speed decides
        logged = killed / "metrics" / f"attempt-{attempt}.jsonl"
        with subprocess.Popen(command(killed), cwd=repository, stdout=subprocess.DEVNULL) as stage:
            wait_until(lambda: logged.exists() and '"step":' in logged.read_text(), 300, of=stage)  # noqa: B023
            stage.send_signal(signal.SIGKILL)
    assert not (killed / "manifest.json").exists()
    rows_before = (killed / "data" / "train.parquet").stat().st_mtime_ns
    assert f"of {STEPS}" in run(killed).partition("resuming after step ")[2]
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
    for folder in (undisturbed, killed):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
