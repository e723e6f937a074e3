"""vLLM alone: asleep it must give its memory back, awake answer as before; as a server it must answer `rag-zeval`."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

from experiments.first_hour.processes import command, last_line, run, started
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from rag_zeval.serve import served_name
from train.gpu_memory import GIB

BASE = "checkpoints/nano-base"
WINDOW, NEW_TOKENS = 1024, 64
FREED = 0.5  # at least, of what it was given
START_SECONDS, ASK_SECONDS = 600.0, 120.0


def need_vllm() -> None:
    """Raises CannotRun without it."""
    if find_spec("vllm") is None:
        raise CannotRun("vLLM is not installed (make installs it for PROFILE=paper and PROFILE=single)")


def sleep(scene: Scene) -> None:
    """Generate, sleep at level 2 as verl lets it, wake the weights, load them again, wake the cache, generate."""
    scene.need_gpu()
    need_vllm()
    import torch
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
    print(f"asleep it gives back {asleep - awake:.1f} of {given:.1f} GiB")
    if asleep - awake < FREED * given:
        raise CheckFailed(
            f"asleep, vLLM gives back {asleep - awake:.1f} GiB of {given:.1f}: training has no room beside it"
        )
    same = sum(one == other for one, other in zip(before, after, strict=True))
    print(f"{same} of {NEW_TOKENS} tokens are the same after sleep")
    if same < NEW_TOKENS:
        raise CheckFailed(f"after sleep {NEW_TOKENS - same} of {NEW_TOKENS} tokens are other ones")


def smoke(scene: Scene) -> None:
    """The exported model in this environment, without a server."""
    model = exported(scene)
    ask(scene, str(model))


def serve(scene: Scene) -> None:
    """The exported model behind vLLM's server, asked as the README does, on a port that is free."""
    need_vllm()
    model = exported(scene)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = scene.folder / "serve-vllm.log"
    log.unlink(missing_ok=True)
    with started(command("rag_zeval", "serve", str(model), "--port", str(port)), log) as server:
        begun = time.monotonic()
        while not healthy(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None:
                raise CheckFailed(f"vLLM's server ended with {server.returncode}: {last_line(log)} ({log})")
            if time.monotonic() - begun > START_SECONDS:
                raise CheckFailed(f"vLLM's server was not ready after {START_SECONDS:.0f} s ({log})")
            time.sleep(1)
        print(f"vLLM's server was ready after {time.monotonic() - begun:.0f} s")
        name = f"openai:{served_name(model)}@http://127.0.0.1:{port}/v1"
        ask(scene, name, "--served", str(model), "--structured")


def ask(scene: Scene, model: str, *words: str) -> None:
    """`rag-zeval smoke`, whose reply must be readable: the tiny model is trained to write the format."""
    status = run(command("rag_zeval", "smoke", "--model", model, *words), scene.folder / "ask.log", ASK_SECONDS, print)
    if status != 0:
        raise CheckFailed(f"rag-zeval smoke {'did not end' if status is None else f'ended with {status}'}")


def exported(scene: Scene) -> Path:
    """The model that `tiny-train` left. Raises CannotRun without one."""
    model = scene.folder / "tiny-train" / "model"
    if not (model / "config.json").exists():
        raise CannotRun(f"{model} is not there: tiny-train makes it")
    return model


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
