"""Check verl's checkpoint files before a resume. verl unpickles them, and a pickle can run code."""

import os
from collections.abc import Iterator
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.text import one_line

# Globals of NumPy's random state, in verl's `extra_state_*.pt`. verl 0.9.1 also writes tensors and shards of tensors.
# Those are on torch's own list of what loads with `weights_only=True`.
_NUMPY = ("numpy.ndarray", "numpy.dtype", "numpy._core.multiarray._reconstruct", "numpy.core.multiarray._reconstruct")
ADVICE = "Resume only from your own checkpoints. To start over, remove this one"
_UNPICKLED = (".pt", ".pth", ".bin", ".pkl")
# First bytes of files of torch.save and of pickle.
_HEADS = (b"PK\x03\x04", *(b"\x80" + bytes([protocol]) for protocol in range(2, 6)))


def check_pickles(checkpoint: Path) -> None:
    """Check that no file of a checkpoint runs code when verl loads it. Nothing is unpickled here.

    Raises InputError if loading a file would call anything that verl does not write, naming the file and the calls. The
    same if a file is not a checkpoint of `torch.save`.
    """
    import torch
    import torch.distributed.tensor  # adds the types of shards to torch's list

    for path in _pickles(checkpoint):
        try:
            called = sorted({*torch.serialization.get_unsafe_globals_in_checkpoint(path)} - {*_NUMPY})
        except Exception as error:  # a damaged or hostile file can raise anything in the zip reader or disassembler
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
