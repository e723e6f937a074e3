"""Measures one part of a GRPO step of the small profile on one side; `lane_speed` runs it in its own process.

It runs as a script. PYTHONPATH is the checkout that is measured, so the script uses only names that the oldest such
checkout has. It reads the work from stdin as JSON and prints its result as one line of JSON; `lane_speed.measure` has
the keys.
"""

import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

TEMPERATURE = 0.9
Written = list[tuple[list[int], list[float]]]  # tokens of the first rollouts of the step, and their log-probabilities
PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "mkldnn", "scaled_dot_product")
NAMES = {"fp32": "float32", "bf16": "bfloat16"}  # torch's names


def main() -> None:
    work = json.load(sys.stdin)
    os.environ |= {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "train.verl_cpu"}
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):  # verl and transformers print a lot
        import torch

        torch.set_num_threads(1)
        found = {"decode": decode, "update": update}[work["part"]](work)
    print(json.dumps({**found, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def decode(work: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds, and the tokens that were written."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.models.decoding import generate, stop_ids

    dtype = getattr(torch, NAMES[work["precision"]])
    model = AutoModelForCausalLM.from_pretrained(work["model"], dtype=dtype, attn_implementation="sdpa").eval()
    stops, pad = stop_ids(model, AutoTokenizer.from_pretrained(work["model"])), model.config.pad_token_id

    def plainly() -> list[Any]:
        width = max(map(len, work["prompts"]))
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in work["prompts"]])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in work["prompts"]])
        torch.manual_seed(0)
        sampling = {"do_sample": True, "temperature": TEMPERATURE, "top_k": 0, "top_p": 1.0}
        out = model.generate(ids, attention_mask=mask, max_new_tokens=work["new_tokens"], **sampling)
        rows = out[:, width:].tolist()
        ends = [next((at for at, token in enumerate(row, 1) if token in stops), len(row)) for row in rows]
        return [(row[:end], []) for row, end in zip(rows, ends, strict=True)]

    def drafted() -> list[Any]:
        sampling: Any = {"temperature": TEMPERATURE, "seeds": range(len(work["prompts"])), "eos": stops, "pad": pad}
        return generate(model, work["prompts"], work["new_tokens"], **sampling)

    seconds, written = timed(plainly if work["plain"] else drafted)
    return {"seconds": seconds, "written": written}


def update(work: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds, the norm of the gradient, and the share of the time in matrix products."""
    with plain_update(work) if work["plain"] else lane_update(work) as call:
        call(work["written"][: work["rollouts"]])  # a warm-up of one micro-batch
        share = in_products(lambda: call(work["written"]))
        seconds, norm = timed(lambda: call(work["written"]))
    return {"seconds": seconds, "norm": norm, "products": share}


@contextmanager
def lane_update(work: dict[str, Any]) -> Iterator[Callable[[Written], float]]:
    """Yield an update by verl's worker with the checkout's engine and small profile. The learning rate is 0."""
    import torch

    from experiments.timing.step_sides import Worker, batch_of, one_process
    from rag_zeval.stages.config import load_config
    from train.verl_config import build
    from train.verl_cpu.engine import CPUEngine

    keys = {
        "model.path": work["model"],
        "model.lora_rank": 0,  # the profile of `before` uses LoRA
        "rollout.data_parallel_size": 1,
        "rollout.temperature": TEMPERATURE,
        "actor.ppo_micro_batch_size_per_gpu": work["rollouts"],
        "actor.optim.lr": 0.0,
        "actor.use_kl_loss": False,
        "actor.optim.total_training_steps": 1,
        "actor.fsdp_config.mixed_precision.param_dtype": work["precision"],
    }
    verl = load_config("train", ["profile=small"]).verl
    config = build(verl, {f"actor_rollout_ref.{key}": value for key, value in keys.items()}).actor_rollout_ref
    with one_process():
        worker = Worker(config, CPUEngine)

        def call(written: Written) -> float:
            batch = batch_of(work["prompts"][: len(written)], written, TEMPERATURE)
            advantages = [torch.full((len(ids),), work["advantages"][at]) for at, (ids, _) in enumerate(written)]
            batch["advantages"] = torch.nested.as_nested_tensor(advantages, layout=torch.jagged)
            batch["old_log_probs"] = batch["rollout_log_probs"]
            return float(worker.update(batch))

        yield call


@contextmanager
def plain_update(work: dict[str, Any]) -> Iterator[Callable[[Written], float]]:
    """Yield an update of the same weights on the same rollouts: padded rows, all logits at once, plain log_softmax."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import AutoModelForCausalLM

    rows, dtype = work["rollouts"], getattr(torch, NAMES[work["precision"]])
    model = AutoModelForCausalLM.from_pretrained(work["model"], dtype=dtype, attn_implementation="sdpa")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def call(written: Written) -> float:
        whole = [
            (torch.tensor(prompt + ids), len(prompt), torch.tensor(of_tokens))
            for prompt, (ids, of_tokens) in zip(work["prompts"], written, strict=False)
        ]
        optimizer.zero_grad()
        for start in range(0, len(whole), rows):
            some = whole[start : start + rows]
            ids = pad_sequence([tokens for tokens, _, _ in some], batch_first=True)
            seen = pad_sequence([torch.ones_like(tokens) for tokens, _, _ in some], batch_first=True)
            log_probs = torch.log_softmax(model(ids, attention_mask=seen).logits.float() / TEMPERATURE, -1)
            loss = torch.zeros(())
            for at, (tokens, prompt, old) in enumerate(some):
                now = log_probs[at, prompt - 1 : len(tokens) - 1].gather(1, tokens[prompt:, None])[:, 0]
                loss = loss - (torch.exp(now - old) * work["advantages"][start + at]).sum()
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        return norm

    yield call


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call and its result. CPU time depends little on other work on the machine."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def in_products(call: Callable[[], Any]) -> float:
    """Return the share of a call's time that it spends in matrix products, including attention's."""
    from torch.profiler import profile

    with profile() as profiler:
        call()
    own = {event.key: event.self_cpu_time_total for event in profiler.key_averages()}
    return sum(time for name, time in own.items() if any(part in name for part in PRODUCTS)) / sum(own.values())


if __name__ == "__main__":
    main()
