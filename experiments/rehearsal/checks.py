"""What a rehearsal must show, read from the folder that `make train` left: each check with the figure it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from rag_zeval.files import Row, read_json, read_jsonl
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages.training_log import Steps, read_run
from rag_zeval.stages.yaml_file import read_yaml
from train.leftovers import all_segments, find_leftovers, unused
from train.rollouts.agreement import CORRELATION, LIMITS, MEAN, within
from train.verl_rehearsal.notes import read_notes

KL = "actor/kl_loss"
SAME = 1e-5  # mean |p - p of the rollout| that rounding makes in fp32, at most


class Check(NamedTuple):
    """One line of the table."""

    name: str
    passed: bool
    figure: str


def moved(steps: Steps) -> Steps:
    """The steps whose rollouts came from other weights than the base's: the first updates moved the KL term above 0."""
    return {step: data for step, data in steps.items() if data.get(KL, 0.0) > 0}


def moved_on(run: Path, step: int) -> bool:
    """Whether a run that goes on has logged this step."""
    return any((run / "metrics").glob("attempt-*.jsonl")) and step in read_run(run)


def weights_arrive(run: Path) -> Check:
    """In fp32, rollouts from new weights have the probabilities that training computes for them."""
    steps = moved(read_run(run))
    largest = max((data[MEAN] for data in steps.values()), default=0.0)
    figure = f"mean |p - p of the rollout| at most {largest:.1e}, KL up to {_largest(steps, KL):.1e}, {_named(steps)}"
    return Check("new weights arrive (fp32)", bool(steps) and largest < SAME, figure)


def rollouts_agree(run: Path) -> Check:
    """In the profile's own precision, mean and correlation keep to the limits of `train.rollouts.agreement`."""
    steps, limits = moved(read_run(run)), LIMITS["bf16"]
    kept = [within(data, limits) for data in steps.values()]
    smallest = min((data[CORRELATION] for data in steps.values()), default=1.0)
    figure = (
        f"mean |p - p of the rollout| at most {_largest(steps, MEAN):.1e}, correlation at least {smallest:.4f}, "
        f"largest {_largest(steps, 'training/rollout_probs_diff_max'):.2f}, {_named(steps)}"
    )
    return Check("rollouts and training agree (own precision)", bool(kept) and all(kept), figure)


def nothing_stays_nan(run: Path) -> Check:
    """What vLLM's sleep lost was all sent again, at each weight update."""
    notes = read_notes(run)
    slept = [note for note in notes if note["event"] == "asleep" and note["lost"]]
    woken = [note for note in notes if note["event"] == "awake"]
    left = [note for note in woken if note["nan"]]
    names = f", first {left[0]['first']}" if left else ""
    levels = sorted({note["level"] for note in slept})
    figure = f"{len(slept)} sleeps at level {levels}, {len(woken)} weight updates, {len(left)} with NaN after it{names}"
    return Check("nothing that sleep lost stays lost", bool(slept and woken) and not left, figure)


def adapters_arrive(run: Path) -> Check:
    """With LoRA, each weight update brings every replica an adapter."""
    notes = [note for note in read_notes(run) if note["event"] in ("received", "awake")]
    without, tensors = 0, set()
    for _, one in groupby(sorted(notes, key=lambda note: note["replica"]), key=lambda note: note["replica"]):
        arrived = 0
        for note in one:
            if note["event"] == "awake":
                without, arrived = without + (not arrived), 0
            elif note["adapter"]:
                arrived = note["tensors"]
                tensors.add(arrived)
    updates = sum(note["event"] == "awake" for note in notes)
    figure = f"{updates} weight updates, {without} without an adapter; tensors in one: {sorted(tensors)}"
    return Check("LoRA adapters arrive", bool(updates) and not without, figure)


def steps_follow(run: Path, total: int, attempts: int) -> Check:
    """Every step is logged once, whatever the run was cut off in."""
    steps, begun = list(read_run(run)), len(list((run / "metrics").glob("attempt-*.jsonl")))
    passed = steps == list(range(total + 1)) and begun == attempts
    return Check("steps are consecutive", passed, f"steps {steps} in {begun} attempts")


def rollouts_by_prompt(run: Path, step: int) -> dict[str, list[str]]:
    """What was written in a training step: of each prompt its samples, in their order."""
    rows = read_jsonl(run / "rollouts" / "train" / f"{step}.jsonl", {"input": str, "output": str})
    written: dict[str, list[str]] = {}
    for row in rows:  # verl sorts them by a random name of the prompt, then by sample
        written.setdefault(row["input"], []).append(row["output"])
    return written


def resumed_as_before(before: Mapping[str, list[str]], after: Mapping[str, list[str]], step: int) -> Check:
    """The rollouts of a step that was done before the kill, and again after it."""
    pairs = [
        pair
        for prompt in before.keys() | after.keys()
        for pair in zip(before.get(prompt, []), after.get(prompt, []), strict=False)
    ]
    same = sum(one == other for one, other in pairs)
    all_of_them = max(sum(map(len, written.values())) for written in (before, after))
    figure = f"step {step}: {same} of {all_of_them} rollouts word for word the same"
    return Check("a resumed run continues", 0 < same == all_of_them, figure)


def greedy_is_transformers(run: Path) -> Check:
    """The last validation, which is greedy and of the exported model's weights, writes what transformers writes."""
    import pyarrow.parquet
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    from rag_zeval.models.decoding import stop_ids

    tokenizer = PreTrainedTokenizerFast.from_pretrained(run / "model")  # AutoTokenizer would take Qwen's own
    model = AutoModelForCausalLM.from_pretrained(run / "model", dtype=torch.float32)
    last = max(int(path.stem) for path in (run / "rollouts" / "val").glob("*.jsonl"))
    prompts = pyarrow.parquet.read_table(run / "data" / "val.parquet", columns=["prompt"]).to_pylist()
    asked = {tokenizer.decode(ids, skip_special_tokens=True): ids for ids in _ids(tokenizer, prompts)}
    rows = read_jsonl(run / "rollouts" / "val" / f"{last}.jsonl", {"input": str, "output": str})
    limit = read_yaml(run / "verl.yaml")["data"]["max_response_length"]
    same = 0
    for row in rows:
        ids = torch.tensor([asked[row["input"]]])
        stop = {"eos_token_id": stop_ids(model, tokenizer), "pad_token_id": tokenizer.pad_token_id}
        with torch.no_grad():
            written = model.generate(ids, do_sample=False, max_new_tokens=limit, **stop)[0, ids.shape[1] :]
        same += tokenizer.decode(written, skip_special_tokens=True) == row["output"]
    figure = f"{same} of {len(rows)} replies the same after step {last}"
    return Check("greedy validation writes what transformers writes", 0 < same == len(rows), figure)


def _ids(tokenizer: Any, rows: Iterable[Row]) -> Iterable[list[int]]:
    return (chat_ids(tokenizer, row["prompt"]) for row in rows)


def exported(run: Path, base: Path) -> Check:
    """`model/` is a plain model that was trained away from its base."""
    from safetensors.torch import load_file

    weights, before = (load_file(folder / "model.safetensors") for folder in (run / "model", base))
    if weights.keys() != before.keys():
        return Check("a plain model is exported", False, f"{len(weights.keys() ^ before.keys())} names differ")
    change = max(float((weights[name].float() - before[name]).abs().max()) for name in weights)
    dtype, steps = read_json(run / "model" / "config.json")["dtype"], read_json(run / "manifest.json")["steps"]
    figure = f"{len(weights)} tensors in {dtype} after {steps} steps, changed by up to {change:.1e}"
    return Check("a plain model is exported", change > 0 and dtype == "float32", figure)


def nothing_is_left(what: str, run: Path, before: set[Path]) -> Check:
    """No process, nothing of ray, and no shared memory that was not there before and that nobody uses."""
    processes = running(run)
    ray = (run / "ray_tmp").exists()  # the note of where ray's folder is goes with the folder
    shared = unused(all_segments() - before)
    figure = f"{len(processes)} processes, {int(ray)} folders of ray, {len(shared)} segments of shared memory"
    return Check(f"nothing is left {what}", not (processes or ray or shared), figure)


def running(run: Path) -> list[psutil.Process]:
    """The processes of a run, also those that wrote their name over the environment that says whose they are."""
    found = {process.pid: process for process in find_leftovers(run)}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or gone by now
            if process.cwd() == str(run) and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = process
    return list(found.values())


def _largest(steps: Steps, metric: str) -> float:
    return max((data[metric] for data in steps.values()), default=0.0)


def _named(steps: Steps) -> str:
    return f"steps {sorted(steps)}" if steps else "no step with KL above 0"
