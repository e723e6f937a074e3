"""Real steps through verl on the shipped base, GRPO and supervised: undisturbed, and with a SIGKILL in between."""

import functools
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag_zeval.files import read_jsonl
from rag_zeval.models.folder import model_sha256

Processes = Callable[[Path], list[str]]
Command = Callable[..., list[str]]
STEPS, PROMPTS, ROLLOUTS = 4, 2, 4  # of `train_command`


@pytest.fixture(scope="module")
def command(train_command: Callable[..., list[str]], nano_responses: Callable[..., str]) -> Callable[..., list[str]]:
    return functools.partial(train_command, nano_responses())


def run(repository: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=repository, capture_output=True, text=True, timeout=400)


def finish(repository: Path, arguments: list[str]) -> str:
    """What a run that must end well prints."""
    done = run(repository, arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def undisturbed(command: Command, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    said = finish(repository, command(out_dir))
    assert "4 steps of 2 prompts x 4 rollouts: K=3 from step 1, K=4 from step 3" in said
    assert f"step 4/{STEPS}" in said and "min left" in said
    return out_dir


@pytest.fixture(scope="module")
def killed_and_resumed(
    processes_of: Processes,
    wait_until: Callable[..., None],
    command: Command,
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out_dir = tmp_path_factory.mktemp("killed") / "run"
    arguments = command(out_dir)
    first = out_dir / "metrics" / "attempt-1.jsonl"
    with subprocess.Popen(arguments, cwd=repository, stdout=subprocess.DEVNULL) as stage:
        try:
            wait_until((out_dir / "verl.log").exists, 120)
            second_start = run(repository, arguments)
            assert second_start.returncode == 2 and "training run is using this folder" in second_start.stderr
            wait_until(lambda: first.exists() and '"step":3,' in first.read_text(), 300)
        finally:
            stage.send_signal(signal.SIGKILL)
    assert not (out_dir / "manifest.json").exists()
    resumed = finish(repository, arguments)  # at once: what is left of ray may still be going down
    assert not processes_of(out_dir)
    assert f"resuming after step 2 of {STEPS}" in resumed  # so step 3 is done, and logged, twice
    assert "done already" in finish(repository, arguments)
    return out_dir


def steps(out_dir: Path) -> dict[int, dict[str, float]]:
    rows = [json.loads(line) for line in (out_dir / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS + 1))  # 0 is the validation before training
    return {row["step"]: row["data"] for row in rows}


def farthest(first: Path, second: Path) -> float:
    """How far two weights of the same name are apart at most."""
    from safetensors.torch import load_file

    one, other = (load_file(run / "model" / "model.safetensors") for run in (first, second))
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_each_step_logs_what_one_wants_to_see(undisturbed: Path) -> None:
    logged = steps(undisturbed)
    for step in range(1, STEPS + 1):
        data = logged[step]
        assert 0 <= data["actor/rollout_probs_diff_max"] <= 1e-4
        for name in "format evidence accuracy score tie_rate claims quotes quote_tokens errors".split():
            assert f"reward_extra/{name}/mean" in data
        assert data["reward_extra/score/mean"] == pytest.approx(data["critic/score/mean"], abs=1e-6)
        assert data["reward_extra/errors/mean"] == data["rollouts/missing"] == 0 and "actor/kl_loss" in data
        assert data["reward_extra/format/mean"] > 0.5  # the base writes trajectories, so the parts are real
        assert (data["curriculum/first_row"], data["curriculum/last_row"]) == (2 * step - 2, 2 * step - 1)
        assert data["curriculum/candidates"] == (3 if step < 3 else 4)
    rates = [logged[step]["actor/lr"] for step in range(1, STEPS + 1)]  # after the step's update
    rate = 5e-4
    assert rates == pytest.approx([rate, rate * 2 / 3, rate / 3, 0])
    assert "val-core/rag_zeval/reward/mean@1" in logged[0] and "val-core/rag_zeval/reward/mean@1" in logged[4]
    assert list((undisturbed / "tensorboard").iterdir())


def test_the_run_leaves_a_plain_model_and_a_manifest(
    undisturbed: Path, nano_base: Path, check_trained: Callable[[Path], None]
) -> None:
    check_trained(undisturbed / "model")
    card = (undisturbed / "model" / "README.md").read_text()
    assert model_sha256(undisturbed / "model") in card
    assert re.findall(r"^\| (\d+) \| [\d.-]+ \|$", card, re.MULTILINE) == ["0", "4"]  # steps that were validated
    cards = [json.loads((folder / "rag_zeval.json").read_text()) for folder in (undisturbed / "model", nano_base)]
    assert cards[0] == cards[1] == {"world": "nano", "variant": "compact"}
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["steps"] == STEPS and manifest["counts"]["train_rows"] == 8 and manifest["attempts"] == 1
    assert [path.name for path in (undisturbed / "checkpoints").glob("global_step_*")] == ["global_step_4"]


def test_a_killed_run_ends_as_an_undisturbed_one(undisturbed: Path, killed_and_resumed: Path) -> None:
    assert farthest(undisturbed, killed_and_resumed) <= 1e-5
    logged, relogged = steps(undisturbed), steps(killed_and_resumed)
    for step in range(1, STEPS + 1):
        for name in ("curriculum/first_row", "curriculum/last_row", "reward_extra/score/mean", "response_length/mean"):
            assert logged[step][name] == pytest.approx(relogged[step][name], abs=1e-6)
        rollouts = (
            read_jsonl(run / "rollouts" / "train" / f"{step}.jsonl") for run in (undisturbed, killed_and_resumed)
        )
        texts, again = (sorted(row["output"] for row in rows) for rows in rollouts)
        assert texts == again and len(texts) == PROMPTS * ROLLOUTS


def test_an_interrupt_leaves_nothing_running(
    processes_of: Processes, wait_until: Callable[..., None], command: Command, repository: Path, tmp_path: Path
) -> None:
    out_dir = tmp_path / "run"
    with subprocess.Popen(
        command(out_dir), cwd=repository, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as stage:
        wait_until(lambda: any("DashboardAgent" in name for name in processes_of(out_dir)), 120)  # ray is there
        stage.send_signal(signal.SIGTERM)
        assert "interrupted" in stage.communicate(timeout=60)[1]
    assert stage.returncode == 130 and not processes_of(out_dir)


def test_verls_own_refusal_is_shown(
    processes_of: Processes, command: Command, repository: Path, tmp_path: Path
) -> None:
    micro = "verl.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=null"
    failed = run(repository, command(tmp_path / "run", micro))
    assert failed.returncode == 1 and not processes_of(tmp_path / "run")
    assert failed.stderr.startswith("error: verl ended with code 1; its output is in ")
    assert "ValueError: [actor_rollout_ref.ref] Please set at least one of" in failed.stderr


def test_a_killed_supervised_run_ends_as_an_undisturbed_one(
    processes_of: Processes,
    wait_until: Callable[..., None],
    check_trained: Callable[[Path], None],
    nano_responses: Callable[..., str],
    repository: Path,
    tmp_path: Path,
) -> None:
    words = [f"responses={nano_responses(12)}", "rows=[{k: 4, rows: 12}]", "verl.trainer.total_epochs=1"]
    words += ["verl.data.train_batch_size=4", "verl.data.micro_batch_size_per_gpu=4", "verl.trainer.save_freq=1"]
    words += ["verl.checkpoint.save_contents=[hf_model,model,optimizer,extra]"]
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    whole, taken_up = ([sys.executable, "-m", "train.sft", *words, f"out_dir={out}"] for out in (undisturbed, killed))
    assert "step 3/3  loss " in finish(repository, whole)
    logged = killed / "metrics" / "attempt-1.jsonl"
    with subprocess.Popen(taken_up, cwd=repository, stdout=subprocess.DEVNULL) as stage:
        wait_until(lambda: logged.exists() and '"step":2,' in logged.read_text(), 300, of=stage)
        stage.send_signal(signal.SIGKILL)
    assert not (killed / "manifest.json").exists()
    rows_before = (killed / "data" / "train.parquet").stat().st_mtime_ns
    assert "of 3" in finish(repository, taken_up).partition("resuming after step ")[2]
    assert not processes_of(killed)
    assert (killed / "data" / "train.parquet").stat().st_mtime_ns == rows_before  # written once
    assert "done already" in finish(repository, taken_up)

    check_trained(undisturbed / "model")
    assert farthest(undisturbed, killed) == 0
    card = json.loads((undisturbed / "model" / "rag_zeval.json").read_text())
    assert card == {"world": "nano", "variant": "ranking-only"}
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["steps"] == 3 and manifest["counts"]["train_rows"] == 12
    assert not list((undisturbed / "checkpoints").glob("global_step_*"))  # the model folder is what is left
    for folder in (undisturbed, killed):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


@pytest.fixture(scope="module", autouse=True)
def no_ray_left() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="t_", dir="/tmp") as short, pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", short)
        yield
        assert not list(Path(short).glob("rz_*"))
