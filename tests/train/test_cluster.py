"""Training in a ray cluster that was there before: what a CPU can show of a run on several machines."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from omegaconf import OmegaConf
from safetensors.torch import load_file
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from rag_zeval.errors import InputError
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config
from train.gpu_memory import read_setup
from train.launch import MARK, worker_variables
from train.settings import check_settings, runtime_env_keys
from train.verl_config import build, check_keys, schema, validate

SECRET = "sk-secret-of-the-test"
JOINED = ["verl.trainer.nnodes=2", "verl.ray_kwargs.ray_init.address=auto"]


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    return worker_variables(tmp_path, tmp_path / "attempt-1.jsonl", cpu=False, threads=1, offline=True)


def test_two_nodes_of_eight_are_composed_as_verl_takes_them(variables: dict[str, str]) -> None:
    config = load_config("train", ["profile=paper", *JOINED, "verl.ray_kwargs.ray_init.runtime_env.env_vars.NCCL_IB=1"])
    check_settings(config)
    check_keys(config.verl, schema())
    verl = build(config.verl, runtime_env_keys(config.verl, variables))
    assert validate(verl) is None
    setup = read_setup(verl)
    assert (setup.gpus, setup.shards) == (16, 16)
    # as verl's main_ppo makes it
    runtime = OmegaConf.merge(get_ppo_ray_runtime_env(verl), verl.ray_kwargs.ray_init.runtime_env)
    found = OmegaConf.to_container(runtime.env_vars)
    assert found.items() >= {**variables, "NCCL_IB": "1"}.items() and {type(value) for value in found.values()} == {str}
    assert SECRET not in OmegaConf.to_yaml(verl)


def test_a_node_of_the_cluster_gets_what_an_own_process_gets(variables: dict[str, str], repository: Path) -> None:
    assert variables["PYTHONPATH"].split(os.pathsep)[0] == str(repository)
    assert {"VERL_FILE_LOGGER_PATH", "TENSORBOARD_DIR", "WANDB_MODE", "WANDB_DIR", MARK} <= variables.keys()
    assert SECRET not in variables.values()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["verl.trainer.nnodes=2"],
            "nnodes=2 needs a ray cluster that is there .* set verl.ray_kwargs.ray_init.address",
        ),
        (
            [*JOINED, "verl.ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY=x"],
            "env_vars.WANDB_API_KEY: a secret would be written into the run's files",
        ),
        ([*JOINED, "verl.ray_kwargs.ray_init.runtime_env.env_vars.hf_token=x"], "env_vars.hf_token: a secret"),
        (["verl.trainer.wandb_proxy=http://me:x@proxy"], "wandb_proxy: a password would be written"),
    ],
)
def test_what_could_not_work_or_would_be_told_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_settings(load_config("train", ["profile=paper", *words]))


def test_names_that_only_sound_like_secrets_pass() -> None:
    words = ["verl.ray_kwargs.ray_init.runtime_env.env_vars.TOKENIZERS_PARALLELISM=true"]
    check_settings(load_config("train", ["profile=paper", *JOINED, *words]))


def test_an_offline_wandb_run_writes_no_key(tmp_path: Path) -> None:
    """wandb as verl starts it, with a key in the environment."""
    code = (
        "from verl.utils.tracking import Tracking\n"
        "log = Tracking('rag-zeval', 'test', ['wandb'], {'trainer': {}})\n"
        "log.log({'a': 1.0}, step=1)\nlog.finish()\n"
    )
    env = {**os.environ, **worker_variables(tmp_path, tmp_path / "a", cpu=True, threads=1, offline=True)}
    env |= {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_API_KEY": "0123456789" * 4}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert not files_with("0123456789" * 4, tmp_path)


def files_with(secret: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A ray cluster of one node that somebody else started; its address."""
    named = ("port", "metrics-export-port", "runtime-env-agent-port")
    named += ("dashboard-agent-grpc-port", "dashboard-agent-listen-port")
    with contextlib.ExitStack() as taken:  # a port that is not named is waited for, and not for long on a busy machine
        free = [taken.enter_context(socket.socket()) for _ in named]
        for each in free:
            each.bind(("", 0))
        ports = [each.getsockname()[1] for each in free]
    place = tempfile.mkdtemp(prefix="c_", dir="/tmp")
    env = {name: value for name, value in os.environ.items() if name not in (MARK, "PYTHONPATH", "RAY_ADDRESS")}
    env |= {"RAY_prestart_worker_first_driver": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    env["RAY_AUTH_MODE"] = "disabled"  # else that of ray's own token file, if there is one
    env |= {"RAY_raylet_start_wait_time_s": "600", "PYTHONUNBUFFERED": "1"}  # on a busy machine
    for name in ("VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES"):
        env.pop(name, None)
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--include-dashboard=false"]
    command += [f"--{name}={number}" for name, number in zip(named, ports, strict=True)]
    command += ["--node-ip-address=127.0.0.1", f"--temp-dir={place}"]
    command += ["--num-cpus=16", "--num-gpus=1", "--object-store-memory=300000000"]
    log = Path(place, "start.log")
    with open(log, "wb") as output:
        started = subprocess.Popen(command, cwd=place, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 600
        while b"Ray runtime started" not in log.read_bytes():
            assert started.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"127.0.0.1:{ports[0]}", started
    finally:
        family = psutil.Process(started.pid).children(recursive=True) if started.poll() is None else []
        for process in (*family, psutil.Process(started.pid)) if started.poll() is None else ():
            process.kill()
        started.wait()
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_workers_of_a_cluster_get_the_runs_environment(
    cluster: tuple[str, subprocess.Popen[bytes]], variables: dict[str, str], repository: Path
) -> None:
    """By ray.init with what verl's main_ppo hands it. The raylet was started without any of these variables."""
    ours = load_config("train", ["profile=paper", *JOINED]).verl
    verl = build(ours, runtime_env_keys(ours, variables))
    runtime = OmegaConf.merge(get_ppo_ray_runtime_env(verl), verl.ray_kwargs.ray_init.runtime_env)
    code = (
        "import json, os, ray, sys\n"
        "ray.init(address=sys.argv[1], runtime_env=json.loads(sys.argv[2]))\n"
        "@ray.remote\n"
        "def look():\n"
        "    import train\n"
        "    return dict(os.environ), train.__file__\n"
        "print(json.dumps(ray.get(look.remote())))\n"
    )
    env = {name: value for name, value in os.environ.items() if name not in (*variables, "RAY_ADDRESS")}
    line = [sys.executable, "-c", code, cluster[0], json.dumps(OmegaConf.to_container(runtime))]
    env["RAY_AUTH_MODE"] = "disabled"
    done = subprocess.run(line, cwd="/", env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    seen, module = json.loads(done.stdout.splitlines()[-1])
    assert seen.items() >= variables.items()
    assert Path(module).parents[1] == repository and cluster[1].poll() is None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_joins_a_cluster_and_leaves_it_as_it_was(
    cluster: tuple[str, subprocess.Popen[bytes]],
    processes_of: Callable[[Path], list[Any]],
    write_responses: Callable[..., str],
    repository: Path,
    tmp_path: Path,
) -> None:
    """Two steps, the best of which is exported; ray's daemons know nothing of us, and are there afterwards."""
    rows = []
    for example in world.ranked_examples("train", 6, 3, 0):
        best_first = sorted(range(3), key=lambda at: -example.true_support[at])
        responses = [
            {"alpha": a, "text": example.answers[at]} for a, at in zip([0.0, -0.5, -1.0], best_first, strict=True)
        ]
        asked = {"question": example.question.question, "passage": example.question.passage}
        rows.append({"id": example.id, "status": "ok", **asked, "responses": responses})
    address, started = cluster
    before = {child.pid for child in psutil.Process(started.pid).children()}
    out_dir = tmp_path / "run"
    words = [f"responses={write_responses(rows)}", f"out_dir={out_dir}", f"verl.ray_kwargs.ray_init.address={address}"]
    for name in ("num_cpus", "num_gpus", "include_dashboard", "object_store_memory"):  # the cluster's own affair
        words.append(f"verl.ray_kwargs.ray_init.{name}=null")
    words += ["stages=[{k: 3, rows: 4}]", "validation=[{k: 3, rows: 2}]", "export=best"]
    words += ["verl.trainer.save_freq=1", "verl.trainer.test_freq=1", "verl.trainer.max_actor_ckpt_to_keep=1"]
    words += ["verl.trainer.logger=[console,file,tensorboard,wandb]"]
    worker = "verl.actor_rollout_ref"
    words += ["verl.data.train_batch_size=2", f"{worker}.actor.ppo_mini_batch_size=2", f"{worker}.rollout.n=4"]
    for key in ("actor.ppo_micro_batch_size_per_gpu", "ref.log_prob_micro_batch_size_per_gpu"):
        words.append(f"{worker}.{key}=4")
    words.append(f"{worker}.rollout.log_prob_micro_batch_size_per_gpu=4")
    done = subprocess.run(
        [sys.executable, "-m", "train", "profile=nano", *words],
        cwd=repository,
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "WANDB_API_KEY": "0123456789" * 4, "HF_TOKEN": SECRET},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((out_dir / "manifest.json").read_text())
    rewards = {
        row["step"]: row["data"]["val-core/rag_zeval/reward/mean@1"]
        for row in map(json.loads, (out_dir / "metrics.jsonl").read_text().splitlines())
    }
    assert list(rewards) == [0, 1, 2] and manifest["steps"] == 2
    assert manifest["exported_step"] == (2 if rewards[2] > rewards[1] else 1)
    assert load_file(out_dir / "model" / "model.safetensors")
    assert not list((out_dir / "checkpoints").glob("best*"))
    assert list(out_dir.glob("wandb/offline-run-*"))
    assert not files_with("0123456789" * 4, out_dir) and not files_with(SECRET, out_dir)
    assert not processes_of(out_dir)
    assert started.poll() is None and {child.pid for child in psutil.Process(started.pid).children()} >= before
