import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rag_zeval.stages.config import load_config
from train.launch import ATTEMPT, MODULES, environment, last_words, run_verl, worker_variables
from train.leftovers import MARK
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import PPO
from train.watch import Watch


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
    monkeypatch.setenv(MODULES, "mine,train.verl_cpu")
    assert variables_of()[MODULES] == "train.verl_cpu,mine" and MODULES not in variables_of("platform=gpu")
    assert variables_of("platform=rehearsal")[MODULES] == "train.verl_cpu,train.verl_rehearsal.plugin,mine"
    monkeypatch.setenv("WANDB_MODE", "online")
    assert variables_of()["WANDB_MODE"] == "online"


def test_a_run_that_stands_still_is_stopped_with_the_error_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "silent.py").write_text("import time; print('RuntimeError: no room', flush=True); time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(TrainSettings, "trainer", replace(PPO, program=["silent"]))
    monkeypatch.setattr(Watch, "_patience", lambda self: 1.0 if self.failed else 60.0)
    settings = read_settings(TrainSettings, load_config("train", [f"out_dir={tmp_path / 'run'}"]))
    folder = RunFolder(settings.out_dir)
    folder.path.mkdir()
    assert run_verl(settings, folder, {}, total=1) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert (
        re.search(r"verl made no progress for \d+ s and was stopped", first) and last.strip() == "RuntimeError: no room"
    )


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


def test_the_first_cause_of_rollouts_that_all_failed_is_among_the_last_words(tmp_path: Path) -> None:
    """As verl 0.9.1 ends a run without rollouts: each is told of where it failed, the end speaks of a buffer."""
    loop, runner, server = (
        f"\x1b[36m({name} pid=7)\x1b[0m " for name in ("AgentLoopWorkerTQ", "TaskRunnerV1", "Server")
    )
    cause = "ValueError: Prompt length (9000) leaves no room to generate"
    failed = [
        f"{loop}Error in _run_prompt for uid=a",
        f"{loop}ray.exceptions.RayTaskError(ValueError): \x1b[36mray::vLLMHttpServer.generate()\x1b[0m (pid=9)",
        f"{loop}{cause}",
        f"{server}OSError: [Errno 32] broken pipe",
        f"{server}KeyError: 'of what went down with it'",
    ]
    buffer = "RuntimeError: Sync replay buffer selected terminal groups with no materializable trajectories."
    end = [f"{runner}ray.exceptions.RayTaskError(RuntimeError): ray::TaskRunnerV1.run()", f"{runner}{buffer}", buffer]
    mended = [f"{loop}TimeoutError: of a step that went well all the same", f"{runner}step:3 - actor/kl_loss:0.01"]
    log = tmp_path / "verl.log"
    log.write_text("\n".join([f"{ATTEMPT}1", *mended, *failed, *end]) + "\n")
    words = last_words(log)
    assert words[0] == cause and words[-1] == buffer and len(words) == 3
