"""The plug-in as verl loads it, in a process of its own: it changes what verl finds for the whole process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from train.launch import MODULES, PLUGINS

ROOT = Path(__file__).resolve().parents[3]


def found(code: str) -> list[str]:
    """What Python code prints in a process of verl's."""
    variables = {"VERL_PLATFORM": "cpu", MODULES: ",".join(PLUGINS["rehearsal"]), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", f"import verl\n{code}"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_verl_takes_our_engine_and_the_folders_tokenizer() -> None:
    code = """
import importlib.metadata
import train.verl_rehearsal.engine
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead as Engine
ours = EngineRegistry.get_engine_cls("language_model", "fsdp2")
print(ours.__name__, ours.prepare_model_inputs is Engine.prepare_model_inputs)
from transformers.models.auto.tokenization_auto import MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS as forced
from verl.utils.tokenizer.continuous_token_wiring import infer_continuous_token_model_family as family
print("qwen2" in forced, family(hf_model_type="qwen2"), family(hf_model_type="qwen3"))
print(importlib.metadata.version("verl"))
try:
    importlib.metadata.version("no-such-distribution")
except importlib.metadata.PackageNotFoundError as error:
    print(error.name)
"""
    assert found(code)[-4:] == ["RehearsalEngine True", "False default qwen3", "0.9.1", "no-such-distribution"]


@pytest.mark.vllm
def test_verl_takes_vllms_cpu_build_and_our_server() -> None:
    code = """
from verl.workers.rollout.replica import get_rollout_replica_class
replica = get_rollout_replica_class("vllm")
print(f"{replica.__module__}.{replica.__name__}")
from train.verl_rehearsal.server import Server
print(Server._get_worker_extension_cls(None))
from vllm.platforms import current_platform
from verl.third_party.vllm import vllm_version
print(current_platform.device_type, current_platform.is_sleep_mode_available(), vllm_version)
"""
    server = "train.verl_rehearsal.server.Replica", "train.verl_rehearsal.worker.WorkerExtension"
    assert found(code)[-3:] == [*server, "cpu True 0.24.0+cpu"]
