"""`make bench-step`: time a GRPO step on one CPU thread, part by part, against a plain one.

Both sides have the same prompts (K=3), seeds and base model, the paper's temperature of 1, and otherwise the settings
of the nano profile.

- `plain` decodes all rollouts as one left-padded batch, one token per pass. verl's worker with verl's FSDP engine then
  computes the old and the reference log-probabilities and the update, on micro-batches that hold the rollouts of one
  prompt.
- `ours` decodes with `rag_zeval.models.decoding`, uses the rollouts' own log-probabilities as the old ones, and runs
  the same worker with `train.verl_cpu.engine`. Both engines get the same rollouts.

What is the same on both sides is not timed: rewards, advantages, sending weights to the rollout server. The learning
rate is 0, so that all pairs time the same step. `same result` means that rollouts are the same token for token, that
log-probabilities agree to 1e-4, and gradient norms to 1e-4 of the norm.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from unittest import mock

import typer

from experiments.timing import plain_step
from experiments.timing.pairs import Comparison, compare, share_different, table, total
from experiments.timing.plain_step import Rollouts
from rag_zeval.errors import exit_status, run_command

if TYPE_CHECKING:
    from omegaconf import DictConfig

CANDIDATES = 3
TEMPERATURE = 1.0


def measure_step(prompts: int, rollouts: int, new_tokens: int, pairs: int) -> list[Comparison]:
    """The parts of a step, and their sum: `rollouts` of at most `new_tokens` tokens for each prompt."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")  # verl reads both when it is first imported
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.models.decoding import generate, stop_ids
    from train.rollouts.seed import rollout_seed

    torch.set_num_threads(1)
    config = worker_config(rollouts)
    path, attention = config.model.path, config.model.override_config.attn_implementation
    with one_process():
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # verl and transformers print a lot
            from train.verl_cpu.engine import CPUEngine

            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=attention)
            plain_worker, our_worker = build_worker(config, plain_step.padded_engine()), build_worker(config, CPUEngine)

        asked = [prompt for prompt in nano_prompts(tokenizer, prompts) for _ in range(rollouts)]
        seeds = [rollout_seed(0, 0, prompt, at % rollouts) for at, prompt in enumerate(asked)]
        ends: Any = {"eos": stop_ids(model, tokenizer), "pad": tokenizer.pad_token_id}
        decode, decode_plainly = (
            partial(by, model.eval(), asked, new_tokens, temperature=TEMPERATURE, seeds=seeds, **ends)
            for by in (generate, plain_step.generate)
        )
        written = decode()
        batch = batch_of(asked, written)
        batch["old_log_probs"] = batch["rollout_log_probs"]
        batch["ref_log_prob"] = log_probs(our_worker.compute_ref_log_prob, batch)

        old = partial(log_probs, plain_worker.compute_log_prob, batch, entropy=True)  # as verl's trainer asks for it
        plain_reference, reference = (
            partial(log_probs, worker.compute_ref_log_prob, batch) for worker in (plain_worker, our_worker)
        )
        plain_update, update = (partial(gradient_norm, worker, batch) for worker in (plain_worker, our_worker))
        parts = [
            compare("rollouts", decode_plainly, decode, share_of_other_tokens, pairs),
            compare("old log-probabilities", old, lambda: batch["rollout_log_probs"], largest_difference, pairs),
            compare("reference log-probabilities", plain_reference, reference, largest_difference, pairs),
            compare("update", plain_update, update, relative_difference, pairs),
        ]
    return [*parts, total("step", parts)]


def share_of_other_tokens(plain: Rollouts, ours: Rollouts) -> float:
    """Share of rollouts whose tokens differ."""
    return share_different([ids for ids, _ in plain], [ids for ids, _ in ours])


def largest_difference(plain: Any, ours: Any) -> float:
    """The largest difference between two nested tensors of one shape."""
    return float((plain.values() - ours.values()).abs().max())


def relative_difference(plain: float, ours: float) -> float:
    """How far two numbers above 0 are apart, as a share of the larger."""
    return abs(plain - ours) / max(plain, ours)


def worker_config(rollouts: int) -> DictConfig:
    """verl's configuration of the workers as the nano profile has it, with the rollouts of a prompt as micro-batch."""
    from rag_zeval.stages.config import load_config
    from train.launch import ROOT
    from train.verl_config import build

    settings = load_config("train", ["profile=nano"])
    worker = {
        "model.path": str(ROOT / settings.base_model),
        "actor.ppo_micro_batch_size_per_gpu": rollouts,
        "ref.log_prob_micro_batch_size_per_gpu": rollouts,
        "rollout.log_prob_micro_batch_size_per_gpu": rollouts,
        "rollout.data_parallel_size": 1,
        "actor.optim.lr": 0.0,
        "actor.optim.total_training_steps": 1,
    }
    return build(settings.verl, {f"actor_rollout_ref.{key}": value for key, value in worker.items()}).actor_rollout_ref


@contextmanager
def one_process() -> Iterator[None]:
    """torch's environment for one process; its process group is gone afterwards."""
    import torch.distributed

    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    with mock.patch.dict(os.environ, place):
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


def build_worker(config: DictConfig, engine: type) -> Any:
    """verl's worker for actor, rollout and reference model with this engine; no rollout server is started."""
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine_workers import ActorRolloutRefWorker

    with mock.patch.dict(EngineRegistry._engines["language_model"]["fsdp2"], {"cpu": engine}):
        worker = ActorRolloutRefWorker(deepcopy(config), "actor_rollout_ref")  # it takes keys out of its configuration
        worker.init_model()
    return worker


def nano_prompts(tokenizer: Any, n: int) -> list[list[int]]:
    """Token ids of the judge's prompt for nano questions, each with answers of different true support."""
    from rag_zeval.judge.prompt import judge_messages
    from rag_zeval.models.language_model import chat_ids
    from rag_zeval.stages import world

    examples = world.ranked_examples("train", n, CANDIDATES, 0)
    asked = [judge_messages("compact", e.question.question, e.question.passage, e.answers) for e in examples]
    return [chat_ids(tokenizer, messages) for messages in asked]


def batch_of(prompts: Sequence[list[int]], rollouts: Rollouts) -> Any:
    """What verl's trainer gives to its workers, as nested tensors; advantages are made up, and cost the same time."""
    import torch
    from verl.utils import tensordict_utils as tu

    advantages = torch.randn(len(prompts), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [
        {
            "prompts": prompt,
            "responses": ids,
            "input_ids": prompt + ids,
            "position_ids": list(range(len(prompt) + len(ids))),
            "loss_mask": [0] * len(prompt) + [1] * len(ids),
            "response_mask": [1] * len(ids),
            "rollout_log_probs": of_tokens,
            "advantages": [advantage] * len(ids),
        }
        for prompt, (ids, of_tokens), advantage in zip(prompts, rollouts, advantages, strict=True)
    ]
    columns = {
        name: torch.nested.as_nested_tensor([torch.tensor(row[name]) for row in rows], layout=torch.jagged)
        for name in rows[0]
    }
    return tu.get_tensordict(columns, {"temperature": TEMPERATURE})


def log_probs(compute: Any, batch: Any, entropy: bool = False) -> Any:
    """Log-probabilities of the responses, nested, by a method of verl's worker."""
    from verl.workers.utils.padding import response_from_nested

    output = compute(with_settings(batch, calculate_entropy=entropy, compute_loss=False))
    return response_from_nested(output["log_probs"], batch["response_mask"])


def gradient_norm(worker: Any, batch: Any) -> float:
    """Norm of the gradient of an update, before clipping."""
    from verl.utils import tensordict_utils as tu

    whole = {"global_batch_size": len(batch), "mini_batch_size": len(batch), "epochs": 1, "seed": 0}
    work = with_settings(batch, calculate_entropy=False, dataloader_kwargs={"shuffle": False}, **whole)
    return float(tu.get(worker.update_actor(work), "metrics")["grad_norm"][0])


def with_settings(batch: Any, **settings: Any) -> Any:
    """A copy that shares the columns: verl's workers write their own settings into what they are given."""
    from verl.utils import tensordict_utils as tu

    copy = batch.copy()
    tu.assign_non_tensor(copy, **settings)
    return copy


def step_speed(
    prompts: Annotated[int, typer.Option(min=1, help="The number of prompts of the step.")] = 8,
    rollouts: Annotated[int, typer.Option(min=1, help="The number of rollouts of each prompt.")] = 8,
    new_tokens: Annotated[int, typer.Option(min=1, help="The maximum length of a rollout, in tokens.")] = 640,
    pairs: Annotated[int, typer.Option(min=1, help="How often to time each part.")] = 3,
) -> None:
    step = measure_step(prompts, rollouts, new_tokens, pairs)
    print(table(step, "plain"))
    if not all(part.equal for part in step):
        raise typer.Exit(1)


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 measured, 1 the sides do not agree, 2 the input is wrong."""
    return run_command(step_speed, argv, "experiments.timing.step_speed", __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
