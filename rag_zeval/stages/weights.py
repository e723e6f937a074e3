"""Files of weights that a stage has written."""

import shutil
from pathlib import Path


def share_weights(folder: Path) -> None:
    """Let everybody read the weights in a folder who may read its config.json or adapter_config.json.

    safetensors gives the files that it writes to their owner alone.
    """
    for weights in folder.glob("*.safetensors"):
        shutil.copymode(next(folder.glob("*config.json")), weights)
