"""Freed memory in CPU training: the process keeps it within a phase of a step, and returns it between phases."""

import ctypes

import psutil

# glibc settings that keep the memory of freed tensors in the process. By default glibc returns a large tensor's memory
# to the system, which then clears it page by page for the next tensor. Huge pages are off: with them, the nano judge's
# rollouts took 15% longer on one machine.
KEEP = "glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=8000000000"
ROOM = 3 * 2**30  # bytes that a micro-batch may need


def give_back() -> None:
    """Return freed memory to the system, for other processes. Does nothing without glibc."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def give_back_if_short(room: int = ROOM) -> None:
    """Return freed memory to the system if the machine has less than `room` bytes available.

    A process cannot always reuse the memory that it keeps, so it grows by gigabytes in an update. Returning memory
    before every micro-batch would make an update a fifth slower.
    """
    if psutil.virtual_memory().available < room:
        give_back()
