"""Checks of a finished training, from the folder that `train` wrote. Each returns a finding and its figure."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isnan, nan
from pathlib import Path
from statistics import median

import psutil
import pyarrow.parquet
import torch
from safetensors.torch import load_file

from experiments.first_hour.scene import Finding
from experiments.training_runs import rollout_file
from rag_zeval.files import read_json, read_jsonl
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages.training_log import attempt_files, read_attempt, read_run
from rag_zeval.yaml_file import read_yaml
from train.leftovers import all_segments, find_leftovers, unused
from train.rollouts.agreement import CORRELATION, LIMITS, MEAN
from train.verl_rehearsal.notes import read_notes

KL = "actor/kl_loss"
LARGEST = "actor/rollout_probs_diff_max"  # |p(rollout) - p(training)| of the sampled tokens, logged by train.verl_cpu
# How far rollouts and training may differ, by metric: the largest value that passes, for the correlation the smallest.
# In fp32 the two differ by rounding only. The limits in bf16 come from a CPU: no GPU has been measured yet.
BOUNDS = {
    "cpu": ((LARGEST, 1e-4),),
    "fp32": ((MEAN, 1e-5),),
    "bf16": ((MEAN, LIMITS["bf16"].mean), (CORRELATION, LIMITS["bf16"].correlation)),
}


def has_logged(run: Path, step: int) -> bool:
    """Whether a training, which may still be running, has logged this step."""
    return any(attempt_files(run / "metrics")) and step in read_run(run)


def weights_arrive(run: Path, bounds: Sequence[tuple[str, float]], moving: bool = False) -> Finding:
    """Check that rollouts and training compute the same probabilities within `bounds`. Then both have the same weights.

    Each step must be within them. The correlation is an exception: where nearly all tokens are certain, a single other
    one spoils that of a step. So its median counts, over the steps with updated weights, whose KL is above 0, or over
    all steps if there are none. moving: also require that there are some.
    """
    steps = {step: data for step, data in read_run(run).items() if step > 0}
    moved = [step for step, data in steps.items() if data.get(KL, 0.0) > 0]
    passed, figures = bool(steps) and (bool(moved) or not moving), []
    for metric, bound in bounds:
        values = {step: data.get(metric, nan) for step, data in steps.items()}  # NaN passes no limit
        if metric == CORRELATION:
            told = [values[step] for step in moved or steps]
            passed = passed and not any(map(isnan, told)) and median(told) >= bound
        else:
            passed = passed and all(value <= bound for value in values.values())
        figures.append(f"{metric} {', '.join(f'{value:.5g}' for value in values.values())} (limit {bound:g})")
    figure = f"steps {list(steps)}: {'; '.join(figures)}; KL above 0 in steps {moved}"
    return Finding("rollouts and training have the same weights", passed, figure)


def nothing_stays_nan(run: Path) -> Finding:
    """Check that each weight update restored all weights that vLLM had lost in its sleep."""
    notes = read_notes(run)
    slept = [note for note in notes if note["event"] == "asleep" and note["lost"]]
    woken = [note for note in notes if note["event"] == "awake"]
    left = [note for note in woken if note["nan"]]
    names = f", first {left[0]['first']}" if left else ""
    levels = sorted({note["level"] for note in slept})
    figure = f"{len(slept)} sleeps at level {levels}, {len(woken)} weight updates, {len(left)} with NaN after it{names}"
    return Finding("nothing that sleep lost stays lost", bool(slept and woken) and not left, figure)


def adapters_arrive(run: Path) -> Finding:
    """Check that with LoRA, each weight update sends an adapter to every replica."""
    updates = without = 0
    arrived: dict[str, int] = {}  # by replica: tensors of the adapter that it got since it last woke up
    sizes = set()
    for note in read_notes(run):
        if note["event"] == "received" and note["adapter"]:
            arrived[note["replica"]] = note["tensors"]
            sizes.add(note["tensors"])
        elif note["event"] == "awake":
            updates += 1
            without += arrived.pop(note["replica"], None) is None
    figure = f"{updates} weight updates, {without} without an adapter; tensors in one: {sorted(sizes)}"
    return Finding("LoRA adapters arrive", updates > 0 and not without, figure)


def steps_follow(run: Path, total: int, attempts: int) -> Finding:
    """Check that all steps are logged in order, and that every attempt after the first resumed and did not start over.

    total: the expected last step. attempts: their expected number.
    """
    steps, files = list(read_run(run)), attempt_files(run / "metrics")
    begun = [logged[0][0] for logged in map(read_attempt, files) if logged]
    passed = steps == list(range(total + 1)) and len(files) == attempts and min(begun[1:], default=2) > 1
    return Finding("steps are consecutive", passed, f"steps {steps}; {len(files)} attempts, from steps {begun}")


def rollouts_by_prompt(run: Path, step: int) -> dict[str, list[str]]:
    """Return the replies that were sampled in a training step, by prompt and in the order of the file."""
    written: dict[str, list[str]] = {}
    for row in read_jsonl(rollout_file(run, "train", step), {"input": str, "output": str}):
        written.setdefault(row["input"], []).append(row["output"])  # verl orders prompts by a random id
    return written


def resumed_as_before(run: Path, before: Mapping[str, list[str]], step: int) -> Finding:
    """Check that a step has the same rollouts before the kill and when it is repeated after it."""
    after = rollouts_by_prompt(run, step)
    pairs = [pair for prompt in before for pair in zip(before[prompt], after.get(prompt, []), strict=False)]
    same = sum(one == other for one, other in pairs)
    total = max(sum(map(len, written.values())) for written in (before, after))
    figure = f"step {step}: {same} of {total} rollouts word for word the same"
    return Finding("a resumed run continues", 0 < same == total, figure)


def greedy_is_transformers(run: Path) -> Finding:
    """Check that the last validation wrote what transformers writes with the exported model.

    That validation is greedy, and its weights are those of the exported model.
    """
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    from rag_zeval.models.decoding import stop_ids

    tokenizer = PreTrainedTokenizerFast.from_pretrained(run / "model")  # AutoTokenizer would load Qwen's tokenizer
    model = AutoModelForCausalLM.from_pretrained(run / "model", dtype=torch.float32)
    last = max(int(path.stem) for path in (run / "rollouts" / "val").glob("*.jsonl"))
    prompts = pyarrow.parquet.read_table(run / "data" / "val.parquet", columns=["prompt"]).to_pylist()
    prompt_ids = [chat_ids(tokenizer, row["prompt"]) for row in prompts]
    asked = {tokenizer.decode(ids, skip_special_tokens=True): ids for ids in prompt_ids}
    rows = read_jsonl(rollout_file(run, "val", last), {"input": str, "output": str})
    limit = read_yaml(run / "verl.yaml")["data"]["max_response_length"]
    same = 0
    for row in rows:
        ids = torch.tensor([asked[row["input"]]])
        stop = {"eos_token_id": stop_ids(model, tokenizer), "pad_token_id": tokenizer.pad_token_id}
        with torch.no_grad():
            written = model.generate(ids, do_sample=False, max_new_tokens=limit, **stop)[0, ids.shape[1] :]
        same += tokenizer.decode(written, skip_special_tokens=True) == row["output"]
    figure = f"{same} of {len(rows)} replies the same after step {last}"
    return Finding("greedy validation writes what transformers writes", 0 < same == len(rows), figure)


def exported(run: Path, base: Path, exact: bool) -> Finding:
    """Check that `model/` is a plain model whose weights differ from the base. An exact run must export it in fp32."""
    weights, before = (load_file(folder / "model.safetensors") for folder in (run / "model", base))
    if weights.keys() != before.keys():
        return Finding("a plain model is exported", False, f"{len(weights.keys() ^ before.keys())} names differ")
    change = max(float((weights[name].float() - before[name].float()).abs().max()) for name in weights)
    dtype, steps = read_json(run / "model" / "config.json")["dtype"], read_json(run / "manifest.json")["steps"]
    figure = f"{len(weights)} tensors in {dtype} after {steps} steps, changed by up to {change:.1e}"
    return Finding("a plain model is exported", change > 0 and (dtype == "float32" or not exact), figure)


def nothing_is_left(run: Path, before: set[Path]) -> Finding:
    """Check that the run left no process, no folder of ray and no unused shared memory.

    before: the segments of shared memory that existed before the run; they do not count.
    """
    processes = running(run)
    ray = (run / "ray_tmp").exists()  # the path of ray's folder; removed together with the folder
    shared = unused(all_segments() - before)
    figure = f"{len(processes)} processes, {int(ray)} folders of ray, {len(shared)} segments of shared memory"
    return Finding("nothing is left of the run", not (processes or ray or shared), figure)


def running(run: Path) -> list[psutil.Process]:
    """Return the processes of a run, also those that overwrote the environment variable that marks them."""
    found = {process.pid: process for process in find_leftovers(run)}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or gone by now
            if process.cwd() == str(run) and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = process
    return list(found.values())
