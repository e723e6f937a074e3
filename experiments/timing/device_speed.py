"""`make measure`: time context-aware decoding at a real model's shape, on the device of this machine.

The model has random weights. Passages have 500 or 4,000 tokens; there are 4 alphas and 64 new tokens, and no answer
ends early. One run measures:

- transformers' guidance (`guidance.guided_answers`): one question and one alpha per call, on a sample of the questions;
- the packed decoder: all questions and alphas in one batch;
- the bound: the highest speed of writing if each step only read the weights and the prompts' cached keys and values
  once. The bandwidth is that of copying 1 GiB on this device (on a CPU, a tenth of 1 GiB).

tokens/s: new tokens divided by the total time, which includes reading the prompts. writing: new tokens divided by the
time after the prompts were read, which is the total time minus the time with 1 new token. The bound applies to writing.
same: how many answers of the sample are the same token for token; in bfloat16 the two sides may round differently.

A run writes `docs/measurements/NAME.json`, and rewrites `docs/measurements.md` from all such files.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.markdown import fill
from experiments.timing.guidance import ALPHAS, SMALL, guided_answers, packed_answers, random_prompts, random_qwen2
from experiments.timing.pairs import timed
from rag_zeval.errors import InputError
from rag_zeval.files import Row, write_json, write_text
from rag_zeval.streams import exit_status, run_command
from train.model_shape import KEPT, shape_of

QWEN_7B = json.loads(KEPT.read_text(encoding="utf-8"))["Qwen2.5-7B-Instruct"]
SHAPES = {"qwen2.5-7b": {key: QWEN_7B[key] for key in SMALL}, "small": SMALL}
FOLDER, PAGE = Path("docs/measurements"), Path("docs/measurements.md")
PASSAGES, NEW_TOKENS, QUESTIONS = (500, 4000), 64, 16
SAMPLE = 2  # questions that transformers' guidance answers
GIB = 2**30


def measure(shape: str) -> Row:
    """All figures of one run. Seconds, tokens/s."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = "bfloat16" if device == "cuda" else "float32"
    print(f"making {shape} with random weights on {device_name()}", flush=True)
    model = random_qwen2(SHAPES[shape], device, dtype)
    bandwidth = copy_bandwidth(device)
    print(f"bandwidth {bandwidth / 1e9:.0f} GB/s", flush=True)
    return {
        "shape": shape,
        "device": device_name(),
        "dtype": dtype,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "alphas": list(ALPHAS),
        "new_tokens": NEW_TOKENS,
        "bandwidth": bandwidth,
        "rows": [measure_passage(model, tokens, bandwidth) for tokens in PASSAGES],
    }


def measure_passage(model: Any, passage: int, bandwidth: float) -> Row:
    """The packed decoder, guidance and the bound for passages of this many tokens; bandwidth: bytes a second."""
    import torch

    from synthesize.cad import decode

    cuda = model.device.type == "cuda"
    prompts, without = random_prompts(model.config.vocab_size, QUESTIONS, passage)

    packed = partial(packed_answers, partial(decode, model), prompts, without)
    guidance = partial(guided_answers, model, prompts[:SAMPLE], without[:SAMPLE])
    packed(2), guidance(2)  # the first calls pay for set-up
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    row: Row = {"passage": passage, "questions": QUESTIONS, "sample": SAMPLE, "peak_gib": None}
    texts = {}
    for name, run in (("packed", packed), ("guidance", guidance)):
        reading, _ = timed(partial(run, 1), finished)
        seconds, texts[name] = timed(partial(run, NEW_TOKENS), finished)
        written = len(texts[name]) * NEW_TOKENS
        row[name] = {
            "seconds": seconds,
            "tokens_per_s": written / seconds,
            "writing_tokens_per_s": (written - len(texts[name])) / max(seconds - reading, 1e-9),
        }
        print(f"passage {passage}, {name}: {row[name]['tokens_per_s']:.0f} tokens/s", flush=True)
        if name == "packed" and cuda:
            row["peak_gib"] = torch.cuda.max_memory_allocated() / GIB
    same = [own == other for own, other in zip(texts["packed"], texts["guidance"], strict=False)]
    row["same"] = sum(same) / len(same)
    row["ratio"] = row["packed"]["tokens_per_s"] / row["guidance"]["tokens_per_s"]
    cached = sum(map(len, prompts)) + sum(map(len, without))
    row["bound_tokens_per_s"] = QUESTIONS * len(ALPHAS) * bandwidth / step_bytes(model, cached)
    return row


def step_bytes(model: Any, cached: int) -> int:
    """Bytes that a step must read at least: every weight but the input embedding's rows, and `cached` tokens."""
    shape, size = shape_of(model.config.to_dict(), "the random model"), model.lm_head.weight.element_size()
    return size * (shape.parameters - shape.embedding) + cached * shape.kv_bytes(size)


def copy_bandwidth(device: str) -> float:
    """Bytes a second that the device reads and writes in a copy of 1 GiB (0.1 on a CPU): the best of ten."""
    import torch

    source = torch.ones((GIB if device == "cuda" else GIB // 10) // 4, device=device)
    target = torch.empty_like(source)
    seconds = min(timed(lambda: target.copy_(source), finished)[0] for _ in range(10))
    return 2 * source.numel() * 4 / seconds


def finished() -> None:
    """Wait until a GPU has done what it was given."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def device_name() -> str:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return f"CPU: {(models or [platform.processor() or platform.machine()])[0]}"


def main(argv: Sequence[str]) -> int:
    return run_command(device_speed, argv, "experiments.timing.device_speed", __doc__)


def device_speed(
    shape: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(SHAPES)}. Default: qwen2.5-7b on a GPU, small on a CPU.")
    ] = None,
) -> None:
    import torch

    if shape is not None and shape not in SHAPES:
        raise InputError(f"unknown shape '{shape}'; choose from: {', '.join(SHAPES)}")
    shape = shape or ("qwen2.5-7b" if torch.cuda.is_available() else "small")
    run = measure(shape)
    name = "".join(c if c.isalnum() else "-" for c in f"{shape} {run['device']}".lower())
    write_json(FOLDER / f"{name}.json", run)
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    write_text(PAGE, fill("measurements.md.j2", runs=runs))
    print(f"\n{fill('measurements.md.j2', runs=[run])}\n{PAGE}")


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
