"""`python -m train.one_gpu key=value ...`: train a small Llama with GRPO in one process, on one GPU.

Rewards, prompts and filters are those of `make train`. It needs no verl, ray or vLLM.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from rag_zeval.files import read_json, write_json
from rag_zeval.stages.command import stage_main
from rag_zeval.stages.config import check_settings, load_config, stored
from train.run_folder import RunFolder, check_same_run
from train.settings import base_sha256


def train(config: DictConfig) -> int:
    """Train, or resume a run with the same settings. Raises InputError if the folder has a run with other settings."""
    from train.one_gpu.rows import build_rows
    from train.one_gpu.settings import OneGPUSettings

    settings = check_settings(OneGPUSettings, config)
    folder = RunFolder(settings.out_dir)
    base = load_config("train", [f"profile={settings.profile}"]).base_model
    identity = {"config": {**stored(config), "out_dir": None}, "base": base_sha256(base)}
    with folder.locked():
        check_same(folder, identity)
        if folder.model.is_dir():
            (folder.path / "state.pt").unlink(missing_ok=True)  # left by a kill after the export
            print(f"{folder.model}: trained before")
            return 0
        from transformers import AutoConfig

        from train.one_gpu.sampler import check_kind

        check_kind(AutoConfig.from_pretrained(base))  # before the rows, which can take minutes
        rows, val_rows = build_rows(settings.profile, settings.rows, settings.validation)
        identity["rows"] = hashlib.sha256(json.dumps([rows, val_rows]).encode()).hexdigest()
        check_same(folder, identity)
        print(f"{len(rows)} rows, {len(val_rows)} validation rows", flush=True)
        from train.one_gpu.training import Training

        training = Training(settings, base, rows, val_rows)
        write_json(folder.identity, identity)
        training.run()
    return 0


def check_same(folder: RunFolder, identity: Mapping[str, Any]) -> None:
    """Raise InputError if the folder holds a run with another value of a key of `identity`, or something else."""
    if not folder.identity.exists():
        folder.check_unused()
        return
    before = {key: value for key, value in read_json(folder.identity).items() if key in identity}
    check_same_run(folder.path, before, identity)


main = stage_main("one_gpu", train)

if __name__ == "__main__":
    sys.exit(main())
