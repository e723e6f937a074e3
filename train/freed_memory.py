"""Freed memory of a training on a CPU: kept within a phase of a step, given back between phases."""

import ctypes

# By default glibc gives a large tensor's memory back to the system, which clears it page by page for the next tensor
KEEP = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=8000000000"


def give_back() -> None:
    """Give freed memory back to the system, for other processes. Without glibc, nothing."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
