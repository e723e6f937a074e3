"""Verl as a process: its environment, how long it may be silent, what it said last, and a kill after its end."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train import launch
from train.derived_keys import derived_keys
from train.launch import (
    ATTEMPT,
    MEMORY_MONITOR,
    MODULES,
    claimed_folder,
    environment,
    last_words,
    precision_line,
    run_verl,
    worker_variables,
)
from train.leftovers import MARK
from train.run_folder import RunFolder
from train.settings import Settings, SFTSettings, TrainSettings, read_settings
from train.sft.__main__ import main as sft_main
from train.verl_config import PPO, build
from train.watch import Watch, names_error

GPU = ["profile=single", "base_model=org/name"]


def test_a_run_on_gpus_needs_flash_attention_unless_it_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl's default attention, for both trainers; transformers would raise in each of verl's processes."""
    key = "override_config.attn_implementation=sdpa"
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    for kind, stage, model in ((TrainSettings, "train", "actor_rollout_ref.model"), (SFTSettings, "sft", "model")):
        with pytest.raises(InputError, match=f"flash-attn is not installed.* set verl.{model}.{key}$"):
            launch.check_attention(read_settings(kind, load_config(stage, GPU)))
        launch.check_attention(read_settings(kind, load_config(stage, [*GPU, f"verl.{model}.{key}"])))


def test_one_run_with_vllm_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launch, "ALONE", tmp_path / "lock")
    on_gpus, on_cpu = (read_settings(TrainSettings, load_config("train", words)) for words in (GPU, []))
    refused = pytest.raises(InputError, match="lock: another training with vLLM")
    with launch.alone(on_gpus), launch.alone(on_cpu), refused, launch.alone(on_gpus):
        pass
    with launch.alone(on_gpus):
        pass


@pytest.mark.parametrize("words", [["profile=paper"], GPU, [*GPU, "verl.trainer.n_gpus_per_node=4"]])
def test_ray_has_the_logical_cpus_that_verl_reserves(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By verl's and TransferQueue's own classes, on a machine with fewer CPUs."""
    from transfer_queue.controller import TransferQueueController
    from transfer_queue.storage.simple_storage import SimpleStorageUnit
    from verl.single_controller.ray import ResourcePoolManager

    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    settings = read_settings(TrainSettings, load_config("train", words))
    verl = build(settings.verl, derived_keys(settings, RunFolder(tmp_path), 0, 0))
    ranks = ResourcePoolManager({}, {}).max_colocate_count * verl.trainer.n_gpus_per_node
    unit, controller = (kind._default_options["num_cpus"] for kind in (SimpleStorageUnit, TransferQueueController))
    units = unit * verl.transfer_queue.backend.SimpleStorage.num_data_storage_units
    assert verl.ray_kwargs.ray_init.num_cpus == ranks + units + controller + 1
    joined = read_settings(TrainSettings, load_config("train", [*words, "verl.ray_kwargs.ray_init.address=auto"]))
    assert "ray_kwargs.ray_init.num_cpus" not in derived_keys(joined, RunFolder(tmp_path), 0, 0)


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
    assert own[MEMORY_MONITOR] == "0"
    on_gpus = variables_of("platform=gpu", "base_model=org/name")
    assert environment(on_gpus, own_ray=None)["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert not {MODULES, "VERL_PLATFORM", "HF_HUB_OFFLINE", MEMORY_MONITOR} & on_gpus.keys()
    monkeypatch.setenv(MODULES, "mine,train.verl_cpu")
    assert variables_of()[MODULES] == "train.verl_cpu,mine" and MODULES not in variables_of("platform=gpu")
    assert variables_of("platform=rehearsal")[MODULES] == "train.verl_cpu,train.verl_rehearsal.plugin,mine"
    monkeypatch.setenv("WANDB_MODE", "online")
    assert variables_of()["WANDB_MODE"] == "online"


@pytest.mark.parametrize(
    ("kind", "stage", "word", "said", "changed"),
    [
        (
            TrainSettings,
            "train",
            "verl.actor_rollout_ref.rollout.dtype=float32",
            "precision: rollouts in bfloat16, updates in bfloat16; on this machine products of its size are 3.1",
            "config.verl.actor_rollout_ref.rollout.dtype='bfloat16', not 'float32'",
        ),
        (
            SFTSettings,
            "sft",
            "verl.engine.mixed_precision.param_dtype=fp32",
            "precision: updates in bfloat16; on this machine products of its size are 3.1 times as fast in bfloat16",
            "config.verl.engine.mixed_precision.param_dtype='bf16', not 'fp32'",
        ),
    ],
)
def test_a_run_says_its_precision_and_is_resumed_in_no_other(
    kind: type[Settings],
    stage: str,
    word: str,
    said: str,
    changed: str,
    nano_responses: Callable[..., str],
    nano_base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("train.launch.speedup", lambda base: 3.14 if base == str(nano_base) else None)
    words = [
        "profile=small",
        f"responses={nano_responses(2)}",
        f"base_model={nano_base}",
        f"out_dir={tmp_path / 'run'}",
    ]

    def begin(*more: str) -> RunFolder:
        with claimed_folder(read_settings(kind, load_config(stage, [*words, *more]))) as folder:
            assert folder is not None
            return folder

    folder = begin()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(said)
    folder.next_attempt().write_text('{"step": 1, "data": {}}\n')
    begin()
    with pytest.raises(InputError, match=re.escape(f"holds a run with {changed}: choose another out_dir")):
        begin(word)
    on_gpu = read_settings(kind, load_config(stage, [*words, "profile=single", f"base_model={nano_base}"]))
    assert precision_line(on_gpu) is None


def test_a_finished_run_without_its_model_is_not_done(
    nano_responses: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"responses={nano_responses(2)}", f"out_dir={tmp_path / 'run'}"]
    settings = read_settings(TrainSettings, load_config("train", words))
    with claimed_folder(settings) as folder:
        assert folder is not None
    folder.manifest.write_text("{}")
    refused = pytest.raises(InputError, match=f"{folder.model}: is missing, although this run is finished")
    with refused, claimed_folder(settings):
        pass
    folder.model.mkdir()
    with claimed_folder(settings) as finished:
        assert finished is None and f"done already: {folder.model}" in capsys.readouterr().out


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
    shown = capsys.readouterr()
    assert shown.out.startswith("warning: verl.actor_rollout_ref.actor.optim.lr_warmup_steps=2, but the run ends after")
    first, last = shown.err.splitlines()
    assert (
        re.search(r"verl made no progress for \d+ s and was stopped", first) and last.strip() == "RuntimeError: no room"
    )


@pytest.mark.parametrize("killed", ["export", "manifest", "prune"])
def test_a_kill_after_a_supervised_training_does_not_repeat_it(
    killed: str, nano_responses: Callable[..., str], nano_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for verl leaves its last checkpoint; then the run is killed in its export, its manifest or its end."""
    trained: list[int] = []

    def verl(settings: Settings, folder: RunFolder, keys: object, total: int, done: int, every: int) -> int:
        trained.append(done)
        shutil.copytree(nano_base, folder.checkpoint(total) / "huggingface")
        folder.newest.write_text(str(total))
        folder.next_attempt().write_text("".join(f'{{"step": {step}, "data": {{}}}}\n' for step in (1, 2, 3)))
        answers.write_text("")  # somebody writes other answers there meanwhile
        return 0

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("train.launch.speedup", lambda base: None)
    monkeypatch.setattr("train.sft.__main__.run_verl", verl)
    answers = Path(nano_responses(12))
    trained_on = answers.read_text()
    words = [f"responses={answers}", f"base_model={nano_base}", f"out_dir={tmp_path}"]
    words += ["rows=[{k: 4, rows: 12}]", "verl.trainer.total_epochs=1"]
    words += ["verl.data.train_batch_size=4", "verl.data.micro_batch_size_per_gpu=4"]
    with monkeypatch.context() as during:
        target = "train.sft.__main__.manifest_of" if killed == "manifest" else f"train.run_folder.RunFolder.{killed}"
        during.setattr(target, kill)
        assert sft_main(words) == 130
    answers.write_text(trained_on)
    assert sft_main(words) == 0
    assert trained == [0] and (tmp_path / "model" / "model.safetensors").exists()
    manifest, begun_with = (json.loads((tmp_path / name).read_text()) for name in ("manifest.json", "run.json"))
    assert manifest.items() >= begun_with.items()


LOOP, RUNNER, SERVER = (f"\x1b[36m({name} pid=7)\x1b[0m " for name in ("AgentLoopWorkerTQ", "TaskRunnerV1", "Server"))
BUFFER = "RuntimeError: Sync replay buffer selected terminal groups with no materializable trajectories."
DIED = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
KILLED = "The actor is dead because its worker process has died."
CAUSE = "ValueError: Prompt length (9000) leaves no room to generate"


@pytest.mark.parametrize(
    ("lines", "first", "last", "n"),
    [
        (
            [
                f"{ATTEMPT}1", "KeyError: 'of an earlier attempt'", f"{ATTEMPT}2",
                f"{RUNNER}some output", "Traceback (most recent call last):",
                f"{RUNNER}torch.OutOfMemoryError: no room",
                "ray.exceptions.RayTaskError(ValueError): \x1b[36mray::run()\x1b[0m", "ValueError: bad batch size",
                "ValueError: bad batch size", "Set HYDRA_FULL_ERROR=1",
            ],
            "torch.OutOfMemoryError: no room", "ValueError: bad batch size", 3,
        ),
        (
            [f"{ATTEMPT}1", "Error executing job with overrides: []", "AssertionError('strategy x not supported')"],
            "AssertionError('strategy x not supported')", "AssertionError('strategy x not supported')", 1,
        ),
        ([f"{ATTEMPT}1", "Killed"], "Killed", "Killed", 1),
        (  # as verl 0.9.1 ends a run without rollouts: each is told of where it failed, the end speaks of a buffer
            [
                f"{ATTEMPT}1",
                f"{LOOP}TimeoutError: of a step that went well all the same", f"{RUNNER}step:3 - actor/kl_loss:0.01",
                f"{LOOP}Error in _run_prompt for uid=a",
                f"{LOOP}ray.exceptions.RayTaskError(ValueError): \x1b[36mray::vLLMHttpServer.generate()\x1b[0m (pid=9)",
                f"{LOOP}{CAUSE}",
                f"{SERVER}OSError: [Errno 32] broken pipe", f"{SERVER}KeyError: 'of what went down with it'",
                f"{RUNNER}ray.exceptions.RayTaskError(RuntimeError): ray::TaskRunnerV1.run()",
                f"{RUNNER}{BUFFER}", BUFFER,
            ],
            CAUSE, BUFFER, 3,
        ),
        (  # as ray 2.60 tells of a worker that was killed: the end speaks of a buffer
            [
                f"{ATTEMPT}1", f"{LOOP}{DIED}", f"{LOOP}\tclass_name: Decoder", f"{LOOP}\tpid: 3229", f"{LOOP}{KILLED}",
                "ray.exceptions.RayTaskError(RuntimeError): ray::TaskRunnerV1.run()", BUFFER,
            ],
            f"{DIED} class_name: Decoder {KILLED}", BUFFER, 3,
        ),
    ],
)  # fmt: skip
def test_last_words_are_the_errors_of_the_last_attempt_the_first_cause_among_them(
    tmp_path: Path, lines: list[str], first: str, last: str, n: int
) -> None:
    log = tmp_path / "verl.log"
    log.write_text("\n".join(lines) + "\n")
    words = last_words(log)
    assert (words[0], words[-1], len(words)) == (first, last, n)


STEP = {"timing_s/step": 200.0, "timing_s/testing": 10.0}
RAISED = b"\x1b[36m(Server pid=1)\x1b[0m (Worker pid=2) CUDA\n\x1b[36m(WorkerDict pid=3)\x1b[0m RuntimeError: no room\n"


class Run:
    """A log, and a clock that goes on when it is told to."""

    def __init__(self, folder: Path):
        self.log, self.now = folder / "verl.log", 0.0
        self.log.write_bytes(b"ValueError: of an attempt before\n")
        self.watch = Watch(self.log, lambda: self.now)

    def write(self, text: bytes) -> None:
        with open(self.log, "ab") as log:
            log.write(text)

    def silent_for(self, seconds: float) -> bool:
        self.watch.silence()
        self.now += seconds
        return self.watch.silence() is not None


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


SHORT = {"timing_s/step": 2.0}
WORKER = b"(Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000] WorkerProc hit an exception.\n"


@pytest.mark.parametrize(
    ("steps", "written", "patience"),
    [
        ([], b"", 1800),
        ([], RAISED, 600),
        ([STEP], b"", 2100),
        ([STEP], RAISED, 630),
        ([SHORT], RAISED, 60),
        ([STEP], WORKER, 60),  # a worker of vLLM raised: nobody may be told, however long the steps are
    ],
)
def test_more_silence_than_a_healthy_run_has(
    run: Run, steps: list[dict[str, float]], written: bytes, patience: float
) -> None:
    for step in steps:
        run.watch.step(step)
    run.write(written)
    assert not run.silent_for(patience - 1)
    assert run.silent_for(2)


@pytest.mark.parametrize(
    "events",
    [
        [(SHORT, RAISED, 50, False), ({}, b"still here\n", 50, False), (SHORT, b"", 300, False)],  # any line or step
        [(SHORT, RAISED[:-9], 300, False), ({}, RAISED[-9:], 61, True)],  # an error counts once its line has ended
    ],
)
def test_what_ends_the_silence(run: Run, events: list[tuple[dict[str, float], bytes, float, bool]]) -> None:
    for step, written, seconds, stopped in events:
        if step:
            run.watch.step(step)
        run.write(written)
        assert run.silent_for(seconds) is stopped


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m ray.exceptions.RayTaskError(ValueError): oh", True),
        ("(Server pid=1) (Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000] RuntimeError: no room", True),
        ("(Worker pid=2) ERROR 11-22 21:00:49 [multiproc_executor.py:1000]     raise RuntimeError(", False),
        ("Error executing job with overrides: []", False),
        ("WARNING 11-22 21:00:49 [cuda.py:230] Failed to import: ModuleNotFoundError('x')", False),
        ("step 3: 0 errors", False),
    ],
)
def test_which_lines_name_an_error(line: str, named: bool) -> None:
    assert names_error(line) is named
