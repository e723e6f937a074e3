"""The parts of a GRPO step on one CPU thread, on two sides; `step_speed` times them.

Both sides run verl's worker in this process with the nano profile, and call it as the trainer does in a step. The plain
side decodes token by token and uses verl's own engine.

VERL_PLATFORM must be set before the import, because this module imports verl.
"""

import io
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import partial
from typing import Any
from unittest import mock

import torch
from omegaconf import DictConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.utils.padding import response_from_nested

from experiments.timing.pairs import Side, TimedPairs, share_different, time_in_turn, total
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.models.decoding import Generated, generate, growing_cache, stop_ids
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config
from train.launch import ROOT
from train.linear_decay import LinearDecayEngine
from train.rollouts import rollout_seed
from train.verl_config import build
from train.verl_cpu.engine import CPUEngine

CANDIDATES = 3
TEMPERATURE = 1.0
# The plain side's engine is ours with these methods from verl's own. What remains of ours lets it run on a CPU.
VERLS = (
    "_build_module",
    "_build_lora_module",
    "forward_backward_batch",
    "prepare_model_inputs",
    "prepare_model_outputs",
    "forward_step",
)
PaddedEngine = type("PaddedEngine", (CPUEngine,), {name: getattr(LinearDecayEngine, name) for name in VERLS})


def measure_step(prompts: int, rollouts: int, new_tokens: int, pairs: int) -> list[TimedPairs]:
    """Time the parts of a step, and return them and their sum.

    Each prompt gets `rollouts` replies of at most `new_tokens` tokens.
    """
    torch.set_num_threads(1)
    config = worker_config(rollouts)
    path, attention = config.model.path, config.model.override_config.attn_implementation
    with one_process():
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # verl and transformers print a lot
            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=attention)
            plain, ours = Worker(config, PaddedEngine), Worker(config, CPUEngine)

        asked = [prompt for prompt in nano_prompts(tokenizer, prompts) for _ in range(rollouts)]
        sampling: Any = {
            "temperature": TEMPERATURE,
            "seeds": [rollout_seed(0, 0, prompt, at % rollouts) for at, prompt in enumerate(asked)],
            "eos": stop_ids(model, tokenizer),
            "pad": tokenizer.pad_token_id,
        }
        plainly = partial(decode_plainly, model.eval(), asked, new_tokens, **sampling)
        drafted = partial(generate, model.eval(), asked, new_tokens, **sampling)

        batch = batch_of(asked, drafted(), TEMPERATURE)
        own_log_probs = batch["old_log_probs"] = batch["rollout_log_probs"]
        batch["ref_log_prob"] = ours.log_probs(batch, reference=True)

        parts: dict[str, tuple[Side, Side, Callable[[Any, Any], float]]] = {
            "rollouts": (plainly, drafted, share_of_other_tokens),
            "old log-probabilities": (lambda: plain.log_probs(batch), lambda: own_log_probs, largest_difference),
            "reference log-probabilities": (
                lambda: plain.log_probs(batch, reference=True),
                lambda: ours.log_probs(batch, reference=True),
                largest_difference,
            ),
            "update": (lambda: plain.update(batch), lambda: ours.update(batch), relative_difference),
        }
        timings = [time_in_turn(name, *part, pairs) for name, part in parts.items()]
    return [*timings, total("step", timings)]


def share_of_other_tokens(plain: Generated, ours: Generated) -> float:
    """Return the share of rollouts whose tokens differ."""
    return share_different([ids for ids, _ in plain], [ids for ids, _ in ours])


def largest_difference(plain: Any, ours: Any) -> float:
    """Return the largest absolute difference between two nested tensors of the same shape."""
    return float((plain.values() - ours.values()).abs().max())


def relative_difference(plain: float, ours: float) -> float:
    """Return the difference of two numbers above 0, as a share of the larger."""
    return abs(plain - ours) / max(plain, ours)


def nano_prompts(tokenizer: Any, n: int) -> list[list[int]]:
    """Return the token ids of the judge's prompts for nano questions, each with answers of different true support."""
    examples = world.ranked_examples("train", n, CANDIDATES, 0)
    asked = [judge_messages("compact", e.question.question, e.question.passage, e.answers) for e in examples]
    return [chat_ids(tokenizer, messages) for messages in asked]


def decode_plainly(
    model: Any,
    prompts: Sequence[list[int]],
    limit: int,
    *,
    temperature: float,
    seeds: Sequence[int],
    eos: Collection[int],
    pad: int,
) -> Generated:
    """Return what `rag_zeval.models.decoding.generate` returns, from one left-padded batch and one token per pass.

    The cache is written in place, and finished rows are removed from the batch.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    draws = torch.stack([torch.rand(limit, generator=one, dtype=torch.float64) for one in generators])
    cache = growing_cache()
    rollouts: Generated = [([], []) for _ in prompts]
    rows = [*range(len(prompts))]  # the rollout that each row of the batch belongs to
    with torch.inference_mode():
        for step in range(limit):
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
            out = model(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
            logits = out.logits[:, -1].float() / temperature
            cumulative = logits.double().softmax(-1).cumsum(-1)
            ids = torch.searchsorted(cumulative, draws[rows, step, None] * cumulative[:, -1:], right=True)
            ids = ids.clamp(max=logits.shape[-1] - 1)
            log_probs = logits.log_softmax(-1).gather(1, ids)
            for row, token, log_prob in zip(rows, ids[:, 0].tolist(), log_probs[:, 0].tolist(), strict=True):
                tokens, of_tokens = rollouts[row]
                if not tokens or tokens[-1] not in eos:
                    tokens.append(token)
                    of_tokens.append(log_prob)
            unfinished = [place for place, row in enumerate(rows) if rollouts[row][0][-1] not in eos]
            if not unfinished:
                break
            if len(unfinished) <= 0.8 * len(rows):  # removing rows copies the cache, so several at once
                kept = torch.tensor(unfinished)
                rows, ids, mask = [rows[place] for place in unfinished], ids[kept], mask[kept]
                for layer in cache.layers:
                    layer.keep(kept)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    return rollouts


def worker_config(rollouts: int) -> DictConfig:
    """Return verl's configuration of its workers.

    The rollouts of a prompt are a micro-batch, and the learning rate is 0.
    """
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
    """Set torch's environment variables for one process, and destroy its process group afterwards."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    with mock.patch.dict(os.environ, place):
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


class Worker:
    """verl's worker for actor, rollout and reference model with this engine, without a rollout server."""

    def __init__(self, config: DictConfig, engine: type):
        with mock.patch.dict(EngineRegistry._engines["language_model"]["fsdp2"], {"cpu": engine}):
            self.worker = ActorRolloutRefWorker(deepcopy(config), "actor_rollout_ref")  # the worker removes keys
            self.worker.init_model()

    def log_probs(self, batch: Any, reference: bool = False) -> Any:
        """Return the log-probabilities of the responses as a nested tensor, by the actor or by the reference model.

        The actor also computes the entropy, as in verl's trainer.
        """
        compute = self.worker.compute_ref_log_prob if reference else self.worker.compute_log_prob
        output = compute(_request(batch, calculate_entropy=not reference, compute_loss=False))
        return response_from_nested(output["log_probs"], batch["response_mask"])

    def update(self, batch: Any) -> float:
        """Update the model and return the norm of the gradient before clipping."""
        whole = {"global_batch_size": len(batch), "mini_batch_size": len(batch), "epochs": 1, "seed": 0}
        request = _request(batch, calculate_entropy=False, dataloader_kwargs={"shuffle": False}, **whole)
        return float(tu.get(self.worker.update_actor(request), "metrics")["grad_norm"][0])


def batch_of(prompts: Sequence[list[int]], rollouts: Generated, temperature: float) -> Any:
    """Return a batch as verl's trainer gives it to its workers, as nested tensors.

    The advantages are random, which takes the same time.
    """
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
    return tu.get_tensordict(columns, {"temperature": temperature})


def _request(batch: Any, **settings: Any) -> Any:
    """Return a copy of the batch with these settings. It shares the columns.

    It is a copy because verl's workers write their own settings into a batch.
    """
    copy = batch.copy()
    tu.assign_non_tensor(copy, **settings)
    return copy
