"""A prompt's rollouts stay on one rank, where the engine computes what they share once.

verl deals single rows out to the ranks, so that each gets as many tokens. `trainer.v1.sampler.custom_sampler` names
this replay buffer, which is made in the process of verl's trainer: there it replaces the function that deals.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from verl.trainer.ppo.v1 import trainer_base
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from train.rollouts.ordered_buffer import OrderedReplayBuffer


class PromptsTogether(OrderedReplayBuffer):
    """Rows in a fixed order, dealt out to the ranks by prompt."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        by_prompt = partial(partitions_by_prompt, rollouts=self.rollouts_per_prompt)
        trainer_base.get_seqlen_balanced_partitions = by_prompt


def partitions_by_prompt(
    seqlen_list: Sequence[int], k_partitions: int, equal_size: bool, *, rollouts: int
) -> list[list[int]]:
    """The rows of each rank, about as much work for each; verl's own parts where some prompt has fewer rows.

    seqlen_list [rows]: the work of each row, a prompt's `rollouts` rows one after the other.
    """
    if len(seqlen_list) % (rollouts * k_partitions):
        return get_seqlen_balanced_partitions(seqlen_list, k_partitions, equal_size)
    starts = range(0, len(seqlen_list), rollouts)
    work = [sum(seqlen_list[start : start + rollouts]) for start in starts]
    prompts = get_seqlen_balanced_partitions(work, k_partitions, equal_size)
    return [[starts[at] + row for at in part for row in range(rollouts)] for part in prompts]
