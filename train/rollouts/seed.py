"""The seed of each rollout: a run draws the same samples, whatever arrives first and however often it is cut off."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any


def rollout_seed(seed: int, step: int, prompt: Sequence[Any], sample: int) -> int:
    """A seed for sample `sample` (from 0) of a prompt, token ids or messages, in a step: 56 bits of a hash of all."""
    digest = hashlib.sha256(repr((seed, step, tuple(prompt), sample)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
