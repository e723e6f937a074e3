"""Keep all rollouts of a prompt on one rank, so that the engine computes their shared prefix only once.

verl distributes single rows to the ranks, so that all get about the same number of tokens.
`trainer.v1.sampler.custom_sampler` names this replay buffer, which is used in the process of verl's trainer. There it
replaces the function that distributes rows. The ranks get about as many tokens to compute: shared prefixes count once,
and prompts that the engine skips, because their rollouts all have the same reward, do not count.
`sampler_kwargs.all_rows_learn` says that none is skipped, because of a KL term for example.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1 import trainer_base
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from train.rollouts.ordered_buffer import OrderedReplayBuffer
from train.verl_cpu.shared_prefix import pack


class PromptsTogether(OrderedReplayBuffer):
    """A replay buffer with rows in a fixed order, which are distributed to the ranks by prompt."""

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        work: list[int] = []
        if batch.keys:
            fields = ["input_ids", "rm_scores"]
            data = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=fields)
            tokens = [row.tolist() for row in data["input_ids"].unbind()]
            all_learn = self.sampler_kwargs.get("all_rows_learn", True)
            rewards = None if all_learn else data["rm_scores"].sum(dim=1).tolist()
            work = work_of_prompts(tokens, self.rollouts_per_prompt, rewards)
        by_prompt = partial(partitions_by_prompt, rollouts=self.rollouts_per_prompt, work=work)
        trainer_base.get_seqlen_balanced_partitions = by_prompt
        return batch, metrics


def work_of_prompts(tokens: Sequence[list[int]], rollouts: int, rewards: Sequence[float] | None = None) -> list[int]:
    """Return for each prompt how many tokens the engine computes: each distinct prefix of its rows once.

    tokens [rows]: the token ids of prompt and response. The `rollouts` rows of a prompt must be next to each other.
    rewards [rows]: if given, a prompt whose rows all have the same one is no work.
    """
    work = []
    for start in range(0, len(tokens), rollouts):
        of_prompt = slice(start, start + rollouts)
        learns = rewards is None or len({*rewards[of_prompt]}) > 1
        work.append(pack(tokens[of_prompt]).input_ids.numel() if learns else 0)
    return work


def partitions_by_prompt(
    seqlen_list: Sequence[int], k_partitions: int, equal_size: bool, *, rollouts: int, work: Sequence[int]
) -> list[list[int]]:
    """Return the rows of each rank, with about the same work for each and all rows of a prompt on one rank.

    seqlen_list [rows]: verl's estimate of each row's work. work [prompts]: our own. If the rows are not `rollouts` for
    each prompt, or the prompts cannot be dealt evenly, because some rows are missing for example, verl's own
    distribution is returned.
    """
    if len(seqlen_list) != rollouts * len(work) or len(work) % k_partitions:
        return get_seqlen_balanced_partitions(seqlen_list, k_partitions, equal_size)
    prompts = get_seqlen_balanced_partitions(work, k_partitions, equal_size)
    return [[at * rollouts + row for at in part for row in range(rollouts)] for part in prompts]
