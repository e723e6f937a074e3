from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rag_zeval.stages.config import load_config
from train.launch import ATTEMPT, MARK, environment, last_words, stop_leftovers, worker_variables
from train.settings import TrainSettings, read_settings


def test_leftovers_of_this_run_are_killed_and_no_others(tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    mine, other = tmp_path / "run", tmp_path / "run2"
    started = [
        subprocess.Popen(sleeper, env={**os.environ, MARK: str(run)}, start_new_session=True, stdout=subprocess.PIPE)
        for run in (mine, mine, other)
    ]
    try:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert stop_leftovers(mine) == 2
        assert [psutil.pid_exists(process.pid) for process in started] == [False, False, True]
        assert stop_leftovers(mine) == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_verl_dies_with_the_stage(wait_until: Callable[..., None]) -> None:
    """What `running_verl` starts must not survive a SIGKILL of its parent."""
    code = (
        f"import sys, subprocess, time; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from train.launch import _die_with_parent\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True,"
        " preexec_fn=_die_with_parent())\nprint(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE, 5)


def test_the_daemons_of_a_cluster_that_was_started_in_the_folder_live_on(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """Ray's agents write their name over their environment: whose they are, their raylet says."""
    shutil.copyfile("/bin/bash", tmp_path / "raylet")
    (tmp_path / "raylet").chmod(0o755)
    script = 'bash -c "exec -a ray::DashboardAgent sleep 60" & echo $!; wait'
    env = {name: value for name, value in os.environ.items() if name != MARK}
    marks = {"another's": env, "ours": {**env, MARK: str(tmp_path)}}
    for whose, env in marks.items():
        raylet = subprocess.Popen([tmp_path / "raylet", "-c", script], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
        try:
            assert raylet.stdout is not None
            agent = psutil.Process(int(raylet.stdout.readline()))
            wait_until(lambda: "ray::DashboardAgent" in agent.cmdline(), 10)  # noqa: B023 (called at once)
            assert stop_leftovers(tmp_path) == (2 if whose == "ours" else 0)
            assert (raylet.poll() is None and agent.is_running()) is (whose != "ours")
        finally:
            for process in psutil.Process(raylet.pid).children() if raylet.poll() is None else []:
                process.kill()
            raylet.kill()
            raylet.communicate()


def test_environment_keeps_to_a_ray_of_its_own(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.delenv("WANDB_MODE", raising=False)

    def variables_of(*words: str) -> dict[str, str]:
        nano = read_settings(TrainSettings, load_config("train", [f"base_model={tmp_path}", *words]))
        return worker_variables(nano, tmp_path, tmp_path / "a.jsonl")

    variables = variables_of()
    own = environment(variables, own_ray=tmp_path / "ray")
    assert own.items() >= variables.items() and own["PYTHONPATH"].split(os.pathsep)[0] == str(repository)
    assert {"VERL_FILE_LOGGER_PATH", "TENSORBOARD_DIR", "WANDB_MODE", "WANDB_DIR", MARK} <= variables.keys()
    assert "RAY_ADDRESS" not in own and own["RAY_TMPDIR"] == str(tmp_path / "ray")
    assert own["WANDB_MODE"] == "offline" and own["HF_HUB_OFFLINE"] == "1" and own["VERL_PLATFORM"] == "cpu"
    on_gpus = variables_of("platform=gpu", "base_model=org/name")
    assert environment(on_gpus, own_ray=None)["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert not {"VERL_USE_EXTERNAL_MODULES", "VERL_PLATFORM", "HF_HUB_OFFLINE"} & on_gpus.keys()
    monkeypatch.setenv("WANDB_MODE", "online")
    assert variables_of()["WANDB_MODE"] == "online"


def test_last_words_are_the_errors_of_the_last_attempt(tmp_path: Path) -> None:
    log = tmp_path / "verl.log"
    log.write_text(
        f"{ATTEMPT}1\nKeyError: 'of an earlier attempt'\n{ATTEMPT}2\n"
        "\x1b[36m(TaskRunnerV1 pid=77)\x1b[0m some output\nTraceback (most recent call last):\n"
        "\x1b[36m(TaskRunnerV1 pid=77)\x1b[0m torch.OutOfMemoryError: no room\n"
        "ray.exceptions.RayTaskError(ValueError): \x1b[36mray::run()\x1b[0m\nValueError: bad batch size\n"
        "ValueError: bad batch size\nSet HYDRA_FULL_ERROR=1\n"
    )
    words = last_words(log)
    assert words[0] == "torch.OutOfMemoryError: no room" and words[-1] == "ValueError: bad batch size"
    assert len(words) == 3
    log.write_text(f"{ATTEMPT}1\nError executing job with overrides: []\nAssertionError('strategy x not supported')\n")
    assert last_words(log) == ["AssertionError('strategy x not supported')"]
    log.write_text(f"{ATTEMPT}1\nKilled\n")
    assert last_words(log) == ["Killed"]
