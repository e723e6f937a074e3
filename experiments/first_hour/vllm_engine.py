"""Checks of vLLM alone.

It must free its memory in sleep, answer as before when it wakes up, and answer `rag-zeval` as a server.
"""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch

from experiments.first_hour.processes import run_well, wait_for
from experiments.first_hour.scene import REHEARSAL, CannotRun, CheckFailed, Finding, Scene, conclude
from rag_zeval.serve import served_name
from rag_zeval.stages.processes import GRACE_SECONDS, last_lines, python_module, started
from train.gpu_memory import GIB
from train.leftovers import all_segments, unused

BASE = "checkpoints/nano-base"
WINDOW, NEW_TOKENS = 1024, 64
FREED = 0.5  # least share of its memory that it must free
START_SECONDS, ASK_SECONDS = 600.0, 300.0


def need_vllm() -> None:
    """Raise CannotRun if vLLM is not installed."""
    if find_spec("vllm") is None:
        raise CannotRun("vLLM is not installed (make installs it for PROFILE=paper and PROFILE=single)")


def sleep(scene: Scene) -> None:
    """Check that vLLM frees memory in sleep and writes the same tokens afterwards.

    It sleeps at level 2, as under verl. Then the weights wake up and are loaded again, and the cache wakes up.
    """
    scene.need_gpu()
    need_vllm()
    from vllm import LLM, SamplingParams

    share = scene.here.verl.actor_rollout_ref.rollout.gpu_memory_utilization
    engine = LLM(
        model=BASE, enable_sleep_mode=True, gpu_memory_utilization=share, max_model_len=WINDOW, dtype="bfloat16", seed=0
    )
    greedy = SamplingParams(temperature=0.0, max_tokens=NEW_TOKENS, ignore_eos=True)

    def generate() -> list[int]:
        [reply] = engine.generate([{"prompt_token_ids": list(range(10, 200))}], greedy, use_tqdm=False)
        return list(reply.outputs[0].token_ids)

    def free() -> float:
        return torch.cuda.mem_get_info(0)[0] / GIB

    before, awake = generate(), free()
    engine.sleep(level=2)
    asleep = free()
    engine.wake_up(tags=["weights"])
    engine.collective_rpc("reload_weights")
    engine.wake_up(tags=["kv_cache"])
    engine.reset_prefix_cache()
    after, given = generate(), share * torch.cuda.mem_get_info(0)[1] / GIB
    freed = asleep - awake
    same = sum(one == other for one, other in zip(before, after, strict=True))
    room = Finding("asleep it leaves room for training", freed >= FREED * given, f"{freed:.1f} of {given:.1f} GiB")
    conclude([room, Finding("it wakes up with its weights", same == NEW_TOKENS, f"{same} of {NEW_TOKENS} tokens")])


def smoke(scene: Scene) -> None:
    """Ask the exported model in this environment, without a server."""
    ask(scene, str(exported(scene)))


def serve(scene: Scene) -> None:
    """Serve the exported model with vLLM on a free port, ask it with `rag-zeval smoke`, and stop it by Ctrl-C.

    Raises CheckFailed if the server leaves shared memory behind.
    """
    need_vllm()
    model, log, before = exported(scene), scene.folder / "serve-vllm.log", all_segments()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(model), "--port", str(port)]
    if scene.lane == REHEARSAL:  # transformers uses Qwen2's tokenizer for the model, whatever is in its folder
        words += ["--enforce-eager", "--tokenizer", BASE]
    with started(python_module("rag_zeval", "serve", *words), log) as server:
        begun = time.monotonic()
        wait_for("vLLM's server", lambda: healthy(f"http://127.0.0.1:{port}/health"), server, log, START_SECONDS)
        print(f"vLLM's server was ready after {time.monotonic() - begun:.0f} s")
        ask(scene, f"openai:{served_name(model)}@http://127.0.0.1:{port}/v1", "--served", str(model), "--structured")
        os.killpg(server.pid, signal.SIGINT)  # Ctrl-C signals the whole process group
        with suppress(subprocess.TimeoutExpired):
            server.wait(GRACE_SECONDS)
    left = unused(all_segments() - before)
    conclude([Finding("nothing is left by the server", not left, f"{len(left)} segments of shared memory")])


def ask(scene: Scene, model: str, *words: str) -> None:
    """Run `rag-zeval smoke`. Its reply must be readable, because the tiny model is trained to write the format.

    In a rehearsal any reply is enough: a model trained for four steps may not write a readable one.
    """
    log = scene.folder / "ask.log"
    try:
        run_well("rag-zeval smoke", python_module("rag_zeval", "smoke", "--model", model, *words), log, ASK_SECONDS)
    except CheckFailed:
        if scene.lane != REHEARSAL or not any(line.startswith("speed ") for line in last_lines(log, 20)):
            raise


def exported(scene: Scene) -> Path:
    """Return the folder of the model that `tiny-train` exported. Raises CannotRun if there is none."""
    model = scene.folder / "tiny-train" / "model"
    if not (model / "config.json").exists():
        raise CannotRun(f"{model} is not there: tiny-train makes it")
    return model


def healthy(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as reply:
        return bool(reply.status == 200)
    return False
