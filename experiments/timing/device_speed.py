"""`make measure`: time context-aware decoding at a real model's shape, on the device of this machine.

It times the packed decoder and transformers' guidance, with random weights. It compares them with the limit that the
memory's bandwidth sets. A run writes `docs/measurements/NAME.json`, and rewrites `docs/measurements.md` from all such
files; the page explains its columns.
"""

import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from experiments.markdown import fill
from experiments.timing import decoding_speed
from experiments.timing.decoding_speed import ALPHAS, NEW_TOKENS, SMALL, Prompts
from experiments.timing.pairs import share_different, timed
from rag_zeval.files import Row, read_json, write_json, write_text
from rag_zeval.streams import command_line
from train.model_shape import KEPT, shape_of

QWEN_7B = read_json(KEPT)["Qwen2.5-7B-Instruct"]
SHAPES = {"qwen2.5-7b": {key: QWEN_7B[key] for key in SMALL}, "small": SMALL}
FOLDER, PAGE = Path("docs/measurements"), Path("docs/measurements.md")
PASSAGES, QUESTIONS = (500, 4000), 16
SAMPLE = 2  # number of questions that transformers' guidance answers
GIB = 2**30


def device_speed() -> None:
    import torch

    cuda = torch.cuda.is_available()
    shape = "qwen2.5-7b" if cuda else "small"
    dtype = "bfloat16" if cuda else "float32"
    device = torch.cuda.get_device_name() if cuda else f"CPU: {cpu_name()}"
    print(f"making {shape} with random weights on {device}", flush=True)
    model = decoding_speed.random_qwen2(SHAPES[shape], "cuda" if cuda else "cpu", dtype)
    bandwidth = copy_bandwidth(model.device)
    run: Row = {  # seconds, bytes per second, tokens per second
        "shape": shape,
        "device": device,
        "dtype": dtype,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "alphas": list(ALPHAS),
        "new_tokens": NEW_TOKENS,
        "bandwidth": bandwidth,
        "rows": [measure_passage(model, tokens, bandwidth) for tokens in PASSAGES],
    }
    name = re.sub("[^a-z0-9]", "-", f"{shape} {device}".lower())
    write_json(FOLDER / f"{name}.json", run)
    write_text(PAGE, fill("measurements.md.j2", runs=[read_json(path) for path in sorted(FOLDER.glob("*.json"))]))
    print(f"\n{fill('measurements.md.j2', runs=[run])}\n{PAGE}")


def measure_passage(model: Any, passage: int, bandwidth: float) -> Row:
    """Measure the packed decoder and guidance, and compute the bound from the bandwidth.

    passage: tokens. bandwidth: bytes per second.
    """
    import torch

    prompts = decoding_speed.random_prompts(QUESTIONS, passage, model.config.vocab_size)
    sample = Prompts(*(stream[:SAMPLE] for stream in prompts))
    cached = sum(len(prompt) for stream in prompts for prompt in stream)
    cuda = model.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    packed, answers = writing_speed(partial(decoding_speed.our_answers, decoding_speed.packed(model), prompts))
    peak = torch.cuda.max_memory_allocated() / GIB if cuda else None
    peer, peer_answers = writing_speed(partial(decoding_speed.guided_answers, model, sample))
    ratio = packed["tokens_per_s"] / peer["tokens_per_s"]
    print(f"passage {passage}: packed {packed['tokens_per_s']:.0f} tokens/s, ratio {ratio:.1f}", flush=True)
    return {
        "passage": passage,
        "questions": QUESTIONS,
        "sample": SAMPLE,
        "peak_gib": peak,
        "packed": packed,
        "guidance": peer,
        "same": 1 - share_different(peer_answers, answers[: len(peer_answers)]),
        "ratio": ratio,
        "bound_tokens_per_s": QUESTIONS * len(ALPHAS) * bandwidth / step_bytes(model, cached),
    }


def writing_speed(answers: Callable[[int], list[list[int]]]) -> tuple[dict[str, float], list[list[int]]]:
    """Return the speed of `answers` and what it wrote. `answers` takes the number of new tokens."""
    answers(2)  # the first call pays for set-up
    reading, _ = timed(partial(answers, 1), finished)
    seconds, written = timed(partial(answers, NEW_TOKENS), finished)
    tokens = len(written) * NEW_TOKENS
    writing = (tokens - len(written)) / max(seconds - reading, 1e-9)
    return {"seconds": seconds, "tokens_per_s": tokens / seconds, "writing_tokens_per_s": writing}, written


def step_bytes(model: Any, cached: int) -> int:
    """Return the least bytes that a decoding step must read.

    These are all weights except the input embedding, and the keys and values of `cached` tokens.
    """
    shape, size = shape_of(model.config.to_dict(), "the random model"), model.lm_head.weight.element_size()
    return size * (shape.parameters - shape.embedding) + cached * shape.kv_bytes(size)


def copy_bandwidth(device: Any) -> float:
    """Return the bytes per second that the device reads and writes in a copy, the best of ten.

    A copy has 1 GiB on a GPU and 0.1 GiB on a CPU.
    """
    import torch

    source = torch.ones((GIB if device.type == "cuda" else GIB // 10) // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / min(timed(lambda: target.copy_(source), finished)[0] for _ in range(10))


def finished() -> None:
    """Wait until the GPU has finished its work. Returns at once without a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def cpu_name() -> str:
    model = re.search(r"^model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return model[1] if model else platform.machine()


main = command_line(device_speed, "experiments.timing.device_speed", __doc__)

if __name__ == "__main__":
    sys.exit(main())
