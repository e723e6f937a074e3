"""Keep all rollouts of a prompt on one rank, so that the engine computes their shared prefix only once.

verl distributes single rows to the ranks, so that all get about the same number of tokens.
`trainer.v1.sampler.custom_sampler` names this replay buffer, which is used in the process of verl's trainer. There it
replaces the function that distributes rows. If the engine skips prompts whose rollouts all have the same reward, the
ranks get about as many tokens of the others. `sampler_kwargs.all_rows_learn` says that none is skipped, because of a KL
term for example.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1 import trainer_base
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from train.rollouts.ordered_buffer import OrderedReplayBuffer


class PromptsTogether(OrderedReplayBuffer):
    """A replay buffer with rows in a fixed order, which are distributed to the ranks by prompt."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        rewards = None
        if batch.keys and not self.sampler_kwargs.get("all_rows_learn", True):
            data = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=["rm_scores"])
            rewards = data["rm_scores"].sum(dim=1).tolist()
        by_prompt = partial(partitions_by_prompt, rollouts=self.rollouts_per_prompt, rewards=rewards)
        trainer_base.get_seqlen_balanced_partitions = by_prompt
        return batch, metrics


def partitions_by_prompt(
    seqlen_list: Sequence[int],
    k_partitions: int,
    equal_size: bool,
    *,
    rollouts: int,
    rewards: Sequence[float] | None = None,
) -> list[list[int]]:
    """Return the rows of each rank, with about the same work for each and all rows of a prompt on one rank.

    seqlen_list [rows]: the work of each row. The `rollouts` rows of a prompt must be next to each other. If the rows
    are not a multiple of rollouts x ranks, because some are missing for example, verl's own distribution is returned.
    rewards [rows]: if given, a prompt whose rows all have the same one is no work.
    """
    if len(seqlen_list) % (rollouts * k_partitions):
        return get_seqlen_balanced_partitions(seqlen_list, k_partitions, equal_size)
    starts = range(0, len(seqlen_list), rollouts)
    work = [sum(seqlen_list[start : start + rollouts]) for start in starts]
    if rewards is not None:
        learns = [len({*rewards[start : start + rollouts]}) > 1 for start in starts]
        work = [one if learning else 0 for one, learning in zip(work, learns, strict=True)]
    prompts = get_seqlen_balanced_partitions(work, k_partitions, equal_size)
    return [[starts[at] + row for at in part for row in range(rollouts)] for part in prompts]
