"""What a run asks of verl's rollouts on any machine: seeds and an order without chance, and an eye on their weights."""

import hashlib
from collections.abc import Sequence
from typing import Any


def rollout_seed(seed: int, step: int, prompt: Sequence[Any], sample: int) -> int:
    """A seed for sample `sample` (from 0) of a prompt, token ids or messages, in a step: 56 bits of a hash of all.

    So a run draws the same samples, whatever request arrives first and however often it is interrupted.
    """
    digest = hashlib.sha256(repr((seed, step, tuple(prompt), sample)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
