"""What a checkpoint of verl may hold. verl unpickles its files, which can run code, so each is read before a resume."""

import os
from collections.abc import Iterator
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.text import one_line

# NumPy's random state in verl's `extra_state_*.pt`. All else that verl 0.9.1 writes, tensors and their shards, is on
# torch's own list of what loads with `weights_only=True`.
_NUMPY = ("numpy.ndarray", "numpy.dtype", "numpy._core.multiarray._reconstruct", "numpy.core.multiarray._reconstruct")
ADVICE = "Resume only from your own checkpoints. To start over, remove this one"
_UNPICKLED = (".pt", ".pth", ".bin", ".pkl")
_HEADS = (b"PK\x03\x04", *(b"\x80" + bytes([protocol]) for protocol in range(2, 6)))  # of torch.save and of pickle


def check_pickles(checkpoint: Path) -> None:
    """Check that no file of a checkpoint runs code when verl loads it. Nothing is unpickled here.

    Raises InputError, naming the file and what it would call, for anything outside of the list of what verl writes,
    and for a file that is no checkpoint of `torch.save`.
    """
    import torch
    import torch.distributed.tensor  # puts the kinds of shards on torch's list

    for path in _pickles(checkpoint):
        try:
            called = sorted({*torch.serialization.get_unsafe_globals_in_checkpoint(path)} - {*_NUMPY})
        except Exception as error:  # whatever a damaged or hostile file causes in the zip reader or the disassembler
            reason = one_line(str(error) or type(error).__name__)
            raise InputError(f"{path}: cannot be checked for code, so it is not loaded: {reason}. {ADVICE}") from error
        if called:
            names = one_line(", ".join(called))
            raise InputError(f"{path}: loading it would call {names}, which verl never writes. {ADVICE}")


def _pickles(checkpoint: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(checkpoint, followlinks=True):
        for path in (Path(folder, name) for name in sorted(names)):
            if path.suffix in _UNPICKLED or (path.suffix != ".safetensors" and _head(path).startswith(_HEADS)):
                yield path


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)
