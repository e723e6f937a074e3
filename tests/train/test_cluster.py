"""Training in a ray cluster that was there before: what a CPU can show of a run on several machines."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from omegaconf import OmegaConf
from safetensors.torch import load_file
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import read_run, validation_rewards
from train.gpu_memory import read_setup
from train.launch import worker_variables
from train.leftovers import MARK
from train.settings import TrainSettings, read_settings
from train.verl_config import build, runtime_env_keys, validate

SECRET = "sk-secret-of-the-test"
JOINED = ["verl.trainer.nnodes=2", "verl.ray_kwargs.ray_init.address=auto"]


def test_two_nodes_of_eight_are_composed_as_verl_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    words = ["profile=paper", *JOINED, "verl.ray_kwargs.ray_init.runtime_env.env_vars.NCCL_IB=1"]
    settings = read_settings(TrainSettings, load_config("train", words))
    variables = worker_variables(settings, tmp_path, tmp_path / "attempt-1.jsonl")
    verl = build(settings.verl, runtime_env_keys(settings.verl, variables))
    assert validate(verl) is None
    setup = read_setup(verl)
    assert (setup.gpus, setup.shards) == (16, 16)
    # as verl's main_ppo makes it
    runtime = OmegaConf.merge(get_ppo_ray_runtime_env(verl), verl.ray_kwargs.ray_init.runtime_env)
    passed = OmegaConf.to_container(runtime.env_vars)
    assert passed.items() >= {**variables, "NCCL_IB": "1"}.items()
    assert {type(value) for value in passed.values()} == {str}
    assert SECRET not in OmegaConf.to_yaml(verl)


def test_an_offline_wandb_run_writes_no_key(tmp_path: Path) -> None:
    """wandb as verl starts it, with a key in the environment."""
    code = (
        "from verl.utils.tracking import Tracking\n"
        "log = Tracking('rag-zeval', 'test', ['wandb'], {'trainer': {}})\n"
        "log.log({'a': 1.0}, step=1)\nlog.finish()\n"
    )
    nano = read_settings(TrainSettings, load_config("train", []))
    env = {**os.environ, **worker_variables(nano, tmp_path, tmp_path / "a")}
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
def cluster(wait_until: Callable[..., None]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
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
    command += ["--num-cpus=16", "--num-gpus=2", "--object-store-memory=300000000"]
    log = Path(place, "start.log")
    with open(log, "wb") as output:
        started = subprocess.Popen(command, cwd=place, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: b"Ray runtime started" in log.read_bytes(), 600, of=started)
        yield f"127.0.0.1:{ports[0]}", started
    finally:
        for process in psutil.Process(started.pid).children(recursive=True) if started.poll() is None else ():
            process.kill()
        started.kill()
        started.wait()
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_joins_a_cluster_and_leaves_it_as_it_was(
    cluster: tuple[str, subprocess.Popen[bytes]],
    processes_of: Callable[[Path], list[str]],
    train_command: Callable[..., list[str]],
    nano_responses: Callable[..., str],
    repository: Path,
    tmp_path: Path,
) -> None:
    """Two steps, the best of which is exported; ray's daemons know nothing of us, and are there afterwards.

    They were started without the variables by which verl's workers choose the CPU and where to log.
    """
    address, started = cluster
    before = {child.pid for child in psutil.Process(started.pid).children()}
    out_dir = tmp_path / "run"
    words = [f"verl.ray_kwargs.ray_init.address={address}", "stages=[{k: 3, rows: 4}]", "export=best"]
    for name in ("num_cpus", "num_gpus", "include_dashboard", "object_store_memory"):  # the cluster's own affair
        words.append(f"verl.ray_kwargs.ray_init.{name}=null")
    words += ["verl.trainer.save_freq=1", "verl.trainer.test_freq=1"]
    words += ["verl.trainer.logger=[console,file,tensorboard,wandb]"]
    done = subprocess.run(
        train_command(nano_responses(6, 3), out_dir, *words),
        cwd=repository,
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "WANDB_API_KEY": "0123456789" * 4, "HF_TOKEN": SECRET},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((out_dir / "manifest.json").read_text())
    rewards = validation_rewards(read_run(out_dir))
    assert list(rewards) == [0, 1, 2] and manifest["steps"] == 2
    assert manifest["exported_step"] == (2 if rewards[2] > rewards[1] else 1)
    assert load_file(out_dir / "model" / "model.safetensors")
    assert not list((out_dir / "checkpoints").glob("best*"))
    assert list(out_dir.glob("wandb/offline-run-*"))
    assert not files_with("0123456789" * 4, out_dir) and not files_with(SECRET, out_dir)
    assert not processes_of(out_dir)
    assert started.poll() is None and {child.pid for child in psutil.Process(started.pid).children()} >= before
