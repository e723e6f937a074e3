"""Chooses the dtype that a local model computes in: the one that its spec names, or else by device and speed."""

import sys
import time
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rag_zeval.errors import needed
from rag_zeval.files import read_json
from rag_zeval.text import one_line

DTYPES = ("float32", "bfloat16")
FASTER = 1.2  # least speedup for bfloat16: less is not worth the rounding, and noise would decide
SMALLEST = 256  # hidden size: a smaller model is fast anyway, and in float32 its replies are the same on every machine
ROWS = 128  # rows of the timed product: the tokens of a pass, as in the batches of a judge
WIDEST = 2048  # widest timed product, so that it takes milliseconds for large models, too
REPEATS = 5


def split_dtype(spec: str) -> tuple[str, str | None]:
    """Return the folder of a spec and the dtype that it names; None if it names none.

    >>> split_dtype("models/judge@bfloat16")
    ('models/judge', 'bfloat16')
    >>> split_dtype("models/judge")
    ('models/judge', None)
    """
    folder, _, dtype = spec.rpartition("@")
    return (folder, dtype) if dtype in DTYPES else (spec, None)


def choose_dtype(spec: str, on_gpu: str = "float32") -> tuple[str, str]:
    """Return the folder of a spec, and the dtype to load it in: the named one, `on_gpu` on a GPU, else the faster one.

    On a CPU, bfloat16 is chosen if a matrix product of the model's own size is at least FASTER times as fast in it. If
    this was timed, a line on stderr says what was chosen. Raises InputError if torch is missing or config.json cannot
    be read.
    """
    folder, dtype = split_dtype(spec)
    if dtype is not None:
        return folder, dtype
    with needed("torch", f"{folder}: a local model"):
        import torch

    if torch.cuda.is_available():
        return folder, on_gpu
    times = speedup(folder)
    if times is None:
        return folder, "float32"
    dtype = "bfloat16" if times >= FASTER else "float32"
    print(f"{folder}: computes in {dtype}; {said(times)}", file=sys.stderr)
    return folder, dtype


def said(times: float) -> str:
    """Return the measured speedup in words."""
    return f"on this machine products of its size are {times:.1f} times as fast in bfloat16 as in float32"


def speedup(folder: str) -> float | None:
    """Return how many times as fast a matrix product of this model's size is in bfloat16 as in float32.

    None for a model whose config names no hidden size, or one below SMALLEST. Each size is timed once, on the threads
    that torch uses, in some milliseconds. Raises InputError for a config.json that cannot be read.
    """
    path = Path(folder) / "config.json"
    config = read_json(path) if path.is_file() else {}  # loading the model will report a missing file
    hidden = config.get("hidden_size", config.get("d_model", config.get("dim")))
    if not isinstance(hidden, int) or hidden < SMALLEST:
        return None
    inner = config.get("intermediate_size")
    if type(inner) is not int or inner < 1:
        inner = 4 * hidden
    return _measured(min(hidden, WIDEST), min(inner, WIDEST))


@cache
def _measured(hidden: int, inner: int) -> float:
    """Time both dtypes in turn and compare the fastest time of each, so that other work disturbs both alike."""
    import torch

    pairs = [
        (torch.ones(ROWS, hidden, dtype=dtype), torch.ones(inner, hidden, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    ]
    best = [float("inf")] * len(pairs)
    with torch.inference_mode():
        for _ in range(1 + REPEATS):  # the first round warms up, and is hardly ever the fastest
            for at, (states, weights) in enumerate(pairs):
                started = time.perf_counter()
                torch.nn.functional.linear(states, weights)
                best[at] = min(best[at], time.perf_counter() - started)
    return best[0] / best[1]


def in_identity(model: Any) -> str:
    """Return what a loaded model adds to the identity of its replies: nothing in float32, else its dtype's name."""
    name = str(model.dtype).removeprefix("torch.")
    return "" if name == "float32" else f" {name}"


def difference(before: Any, now: Any) -> str:
    """Return in brackets where two identities of replies begin to differ, or how to resume if only the dtype differs.

    Empty if they are equal, or if the first one is missing.

    >>> difference("http://old/v1 judge", "http://new/v1 judge")
    " ('http://old/v1' before, 'http://new/v1' now)"
    >>> difference("weights 1a prompt", "weights 1a bfloat16 prompt")
    ' (it was computed in float32: to resume, name the model as FOLDER@float32)'
    """
    if before is None or before == now:
        return ""
    mark = f" {DTYPES[1]}"
    if str(before).replace(mark, "") != str(now).replace(mark, ""):
        words = zip_longest(one_line(str(before)).split(), one_line(str(now)).split(), fillvalue="")
        return next((f" ('{old}' before, '{new}' now)" for old, new in words if old != new), "")
    dtype = DTYPES[1] if mark in str(before) else DTYPES[0]
    return f" (it was computed in {dtype}: to resume, name the model as FOLDER@{dtype})"
