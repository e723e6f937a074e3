"""Freed memory of a training on a CPU: kept within a phase of a step while there is room, given back between phases."""

import ctypes

import psutil

# By default glibc gives a large tensor's memory back to the system, which clears it page by page for the next tensor
KEEP = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=8000000000"
ROOM = 3 * 2**30  # bytes that a micro-batch may still need


def give_back() -> None:
    """Give freed memory back to the system, for other processes. Without glibc, nothing."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def give_back_if_short(room: int = ROOM) -> None:
    """Give it back if the machine has less than `room` bytes available.

    What a process keeps does not always fit what it needs next, so it grows by gigabytes in an update. Giving back
    before every micro-batch would make an update a fifth slower.
    """
    if psutil.virtual_memory().available < room:
        give_back()
