"""Real supervised steps through verl on the shipped base: undisturbed, and with a SIGKILL in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_zeval.files import read_json
from rag_zeval.judge.parser import parse_ranking
from rag_zeval.judge.prompt import RANKING
from rag_zeval.stages.config import load_config
from train.run_folder import RunFolder
from train.settings import SFTSettings, read_settings
from train.sft.__main__ import prepare_rows

STEPS, ROWS = 3, 4
Processes = Callable[[Path], list[str]]
ALPHAS = [0.0, -0.5, -1.0, -1.4]  # of the answers, best first


@pytest.fixture(scope="module")
def responses(nano_responses: Callable[..., str]) -> str:
    return nano_responses(STEPS * ROWS)


def words(responses: str, out_dir: Path, *more: str) -> list[str]:
    small = [f"verl.data.train_batch_size={ROWS}", f"verl.data.micro_batch_size_per_gpu={ROWS}"]
    small.append("verl.trainer.total_epochs=1")
    return [f"responses={responses}", f"out_dir={out_dir}", "rows=[{k: 4, rows: 12}]", *small, *more]


def test_a_killed_run_ends_as_an_undisturbed_one(
    processes_of: Processes,
    wait_until: Callable[..., None],
    check_trained: Callable[[Path], None],
    responses: str,
    repository: Path,
    tmp_path: Path,
) -> None:
    from safetensors.torch import load_file

    def command(out_dir: Path) -> list[str]:
        return [sys.executable, "-m", "train.sft", *words(responses, out_dir)]

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


def test_the_rows_are_the_rankings(responses: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet

    folder = RunFolder(tmp_path)
    prepare_rows(read_settings(SFTSettings, load_config("sft", words(responses, tmp_path))), folder)
    rows = pyarrow.parquet.read_table(folder.train_rows).to_pylist()
    assert read_json(folder.counts)["train_rows"] == len(rows) == 12
    for row in rows:
        user, assistant = row["messages"]
        assert user["content"].startswith(RANKING.template.split("{inputs}")[0])
        letters = parse_ranking(assistant["content"], 4)
        assert [row["alphas"]["ABCD".index(letter)] for letter in letters] == ALPHAS
    assert "12 rows; left out: 0 too long" in capsys.readouterr().out
