"""`python -m train.one_gpu key=value ...`: train a small Llama by GRPO in one process, on one GPU.

The rewards, the prompts and the filters are those of `make train`; verl, ray and vLLM are not needed.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rag_zeval.errors import InputError
from rag_zeval.files import first_difference, flat, read_json, write_json
from rag_zeval.stages.config import check_settings, load_config, stored
from rag_zeval.streams import exit_status
from train.settings import base_sha256

RUN = "run.json"  # what a run is made of


def main(argv: Sequence[str] | None = None) -> int:
    """0: trained, or done before; 2: the input is wrong; 130: interrupted."""
    return exit_status(lambda: train(load_config("one_gpu", sys.argv[1:] if argv is None else argv)))


def train(config: DictConfig) -> int:
    """Train, or resume a run with the same settings. Raises InputError if the folder has one with others."""
    from train.one_gpu.rows import build_rows
    from train.one_gpu.settings import OneGPUSettings

    settings = check_settings(OneGPUSettings, config)
    folder = Path(settings.out_dir)
    base = load_config("train", [f"profile={settings.profile}"]).base_model
    identity = {"config": {**stored(config), "out_dir": None}, "base": base_sha256(base)}
    check_same(folder, identity)
    if (folder / "model").is_dir():
        print(f"{folder / 'model'}: trained before")
        return 0
    train_rows, val_rows = build_rows(settings.profile, settings.rows, settings.validation)
    identity["rows"] = hashlib.sha256(json.dumps([train_rows, val_rows]).encode()).hexdigest()
    check_same(folder, identity)
    print(f"{len(train_rows)} rows, {len(val_rows)} validation rows", flush=True)
    from train.one_gpu.training import Training

    training = Training(settings, base, train_rows, val_rows)
    write_json(folder / RUN, identity)
    training.run()
    return 0


def check_same(folder: Path, identity: Mapping[str, Any]) -> None:
    """Raise InputError, naming what differs, if the folder holds a run of which something here is not true."""
    path = folder / RUN
    before = {key: value for key, value in read_json(path).items() if key in identity} if path.exists() else identity
    if (key := first_difference(before, identity)) is not None:
        was, now = (flat(of).get(key) for of in (before, identity))
        raise InputError(f"{folder} holds a run with {key}={was!r}, not {now!r}: choose another out_dir, or remove it")


if __name__ == "__main__":
    sys.exit(main())
