"""Freed memory: within a phase of a step glibc keeps it (`train.launch.KEEP_MEMORY`), between phases others need it."""

from __future__ import annotations

import ctypes


def empty_cache(*_: object) -> None:
    """What `torch.cuda.empty_cache` is on a GPU: freed memory goes back to the system. Without glibc, nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
