"""Make verl's rollouts reproducible by seeds and a fixed order, and check the weights that they come from."""

import hashlib
from collections.abc import Sequence
from typing import Any


def rollout_seed(seed: int, step: int, prompt: Sequence[Any], sample: int) -> int:
    """Return a seed for a sample (numbered from 0) of a prompt in a step: 56 bits of a hash of all arguments.

    prompt: token ids or messages. With it a run draws the same samples, whatever the order of requests and however
    often it is interrupted.
    """
    digest = hashlib.sha256(repr((seed, step, tuple(prompt), sample)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
