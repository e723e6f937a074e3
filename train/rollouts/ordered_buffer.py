"""verl's replay buffer with a fixed row order and the reward's parts in the training metrics.

`trainer.v1.sampler.custom_sampler.{path,name}` selects it. Its `sampler_kwargs` are `poll_interval` (seconds; verl's
default is 2) and `rollouts_per_prompt`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from train.reward_metrics import reward_metrics


class OrderedReplayBuffer(ReplayBuffer):
    """A replay buffer that returns rows by data row and sample number, whatever arrived first.

    verl gives each prompt a random name and returns rows in their order of arrival. Then sums differ from run to run in
    the last digits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        options: Mapping[str, Any] = self.sampler_kwargs or {}
        self.poll_interval: float = options.get("poll_interval", 2.0)
        self.rollouts_per_prompt: int = options["rollouts_per_prompt"]

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if not batch.keys:
            return batch, metrics
        fields = ["extra_fields", "extra_info"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=fields)
        extra, info = (_plain(data[field]) for field in fields)
        rows = [int(i["index"]) for i in info]
        batch.reorder(row_order(rows, [int(e.get("sample", 0)) for e in extra]))
        if partition_id != "val":
            candidates = [int(i["k"]) for i in info]
            metrics.update(reward_metrics([e.get("reward_extra_info") or {} for e in extra], candidates))
            metrics.update(
                {
                    "curriculum/first_row": min(rows),
                    "curriculum/last_row": max(rows),
                    # verl continues without failed rollouts, so report them.
                    "rollouts/missing": batch_size * self.rollouts_per_prompt - len(rows),
                }
            )
        return batch, metrics


def _plain(column: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the dicts of a non-tensor column, which is a list of dicts or a stack of wrappers."""
    return [dict(getattr(item, "data", item)) for item in column]


def row_order(rows: Sequence[int], samples: Sequence[int]) -> list[int]:
    """Return positions sorted by (data row, sample number). The rollouts of a prompt are next to each other."""
    return sorted(range(len(rows)), key=lambda at: (rows[at], samples[at]))
