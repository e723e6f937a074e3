"""verl's worker in this process, as the nano profile has it, and what the trainer asks of it in a step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest import mock

from experiments.timing.plain_step import Rollouts

if TYPE_CHECKING:
    from omegaconf import DictConfig


def worker_config(rollouts: int) -> DictConfig:
    """verl's configuration of its workers; the rollouts of a prompt are a micro-batch, and the learning rate is 0."""
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


class Worker:
    """verl's worker for actor, rollout and reference model with this engine; no rollout server is started."""

    def __init__(self, config: DictConfig, engine: type):
        from verl.workers.engine import EngineRegistry
        from verl.workers.engine_workers import ActorRolloutRefWorker

        with mock.patch.dict(EngineRegistry._engines["language_model"]["fsdp2"], {"cpu": engine}):
            self.worker = ActorRolloutRefWorker(deepcopy(config), "actor_rollout_ref")  # it takes keys out of it
            self.worker.init_model()

    def old_log_probs(self, batch: Any) -> Any:
        """Log-probabilities of the responses, nested. verl's trainer asks for the entropy along with them."""
        request = _request(batch, calculate_entropy=True, compute_loss=False)
        return _of_responses(self.worker.compute_log_prob(request), batch)

    def reference_log_probs(self, batch: Any) -> Any:
        request = _request(batch, calculate_entropy=False, compute_loss=False)
        return _of_responses(self.worker.compute_ref_log_prob(request), batch)

    def update(self, batch: Any) -> float:
        """Update the model; the norm of the gradient before clipping."""
        from verl.utils import tensordict_utils as tu

        whole = {"global_batch_size": len(batch), "mini_batch_size": len(batch), "epochs": 1, "seed": 0}
        request = _request(batch, calculate_entropy=False, dataloader_kwargs={"shuffle": False}, **whole)
        return float(tu.get(self.worker.update_actor(request), "metrics")["grad_norm"][0])


def batch_of(prompts: Sequence[list[int]], rollouts: Rollouts, temperature: float) -> Any:
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
    return tu.get_tensordict(columns, {"temperature": temperature})


def _request(batch: Any, **settings: Any) -> Any:
    """A copy that shares the columns: verl's workers write their own settings into what they are given."""
    from verl.utils import tensordict_utils as tu

    copy = batch.copy()
    tu.assign_non_tensor(copy, **settings)
    return copy


def _of_responses(output: Any, batch: Any) -> Any:
    from verl.workers.utils.padding import response_from_nested

    return response_from_nested(output["log_probs"], batch["response_mask"])
