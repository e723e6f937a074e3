"""`python -m train key=value ...`: curriculum rows, then GRPO through verl, then a plain model folder."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import file_sha256, model_sha256, write_json
from rag_zeval.stages.config import load_config

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.run_folder import RunFolder

POLL_SECONDS = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """0: trained, or done before; 1: verl failed; 2: the input is wrong; 130: interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return exit_status(lambda: train(load_config("train", sys.argv[1:] if argv is None else argv)))


def train(config: DictConfig) -> int:
    """The stage: each part is skipped if it is done already, so the same command resumes a run that was cut off."""
    from train.curriculum import Stage
    from train.launch import stop_leftovers
    from train.plan import count_steps, describe_steps
    from train.run_folder import RunFolder
    from train.settings import check_settings, identity
    from train.verl_config import check_keys, schema

    check_settings(config)
    check_keys(config.verl, schema())
    if config.dry_run:
        from train.dry_run import dry_run

        return dry_run(config)
    check_memory(config)
    folder = RunFolder(config.out_dir)
    with folder.locked():
        stop_leftovers(folder.path)  # of an attempt that was killed: nothing may write here while the folder is read
        folder.claim(identity(config))
        if folder.manifest.exists():
            print(f"done already: {folder.model}")
            return 0
        prepare_rows(config, folder)
        counts = folder.read_counts()
        total = count_steps(config, counts["train_rows"])
        done = folder.last_checkpoint()
        train_stages = (stage for name, stage in counts["stages"].items() if name.startswith("train"))
        print(describe_steps(config, [Stage(stage["k"], stage["rows"]) for stage in train_stages]))
        if done < total:
            code = run_verl(config, folder, total, done)
            folder.merge_metrics()
            if code != 0:
                return code
        return finish(config, folder, total)


def prepare_rows(config: DictConfig, folder: RunFolder) -> None:
    """Write the training and validation rows once."""
    from train.curriculum import build_curriculum, describe, prompt_counter, read_questions, read_stages, write_parquet
    from train.settings import read_filter

    if folder.counts.exists():
        return
    questions, failed = read_questions(config.responses, config.alphas)
    curriculum = build_curriculum(
        questions,
        read_stages(config.stages, "stages"),
        read_stages(config.validation, "validation"),
        seed=config.seed,
        variant=config.variant,
        answer_filter=read_filter(config),
        prompt_tokens=prompt_counter(config.base_model),
        max_prompt_tokens=config.verl.data.max_prompt_length,
    )
    for line in describe(curriculum.counts):
        print(line)
    write_parquet(folder.train_rows, curriculum.train)
    write_parquet(folder.val_rows, curriculum.val)
    counts = {"questions": len(questions), "failed": failed, "flagged": curriculum.flagged, "stages": curriculum.counts}
    write_json(folder.counts, {**counts, "train_rows": len(curriculum.train), "val_rows": len(curriculum.val)})


def check_memory(config: DictConfig) -> None:
    """Raises InputError for what cannot fit into GPUs of `gpu_memory_gib`, before anything is started."""
    from train.gpu_memory import misfit, read_setup
    from train.model_shape import read_shape
    from train.verl_config import build

    if config.platform != "gpu" or config.gpu_memory_gib is None:
        return
    shape, where = read_shape(config.base_model)
    if shape is None:
        print(f"GPU memory is not checked: {where}")
    elif problem := misfit(shape, read_setup(build(config.verl, {})), config.gpu_memory_gib):
        raise InputError(problem)


def run_verl(config: DictConfig, folder: RunFolder, total: int, done: int) -> int:
    """One attempt from the checkpoint of step `done`; 0 when verl ended well, else 1, having said why."""
    from rag_zeval.stages.ray_folder import ray_folder
    from rag_zeval.stages.training_log import read_attempt
    from train.launch import environment, running_verl, say_why, worker_variables
    from train.progress import Display
    from train.settings import derived_keys, runtime_env_keys
    from train.verl_config import build

    variables = worker_variables(
        folder.path,
        folder.next_attempt(),
        cpu=config.platform == "cpu",
        threads=config.threads,
        offline=Path(config.base_model).is_dir(),
    )
    own_ray = config.verl.ray_kwargs.ray_init.address == "local"
    keys = derived_keys(config, folder, done, folder.read_counts()["val_rows"])
    keys |= runtime_env_keys(config.verl, {} if own_ray else variables)
    verl = build(config.verl, keys)
    best = config.export == "best"
    if best:
        folder.keep_best()  # of an attempt that was killed; all checkpoints but one go now
    attempt = folder.start_attempt(verl, after=done)
    if done:
        print(f"resuming after step {done} of {total}")
    with ray_folder(folder.path) as ray_tmp:
        env = environment(variables, own_ray=ray_tmp if own_ray else None)
        with running_verl(folder.path, folder.verl_config, folder.log, env) as process, Display(total, done) as display:
            ended = False
            shown = 0
            while not ended:
                ended = process.poll() is not None  # asked first: what was logged before the end is then read
                lines = read_attempt(attempt)
                for step, data in lines[shown:]:
                    display.step(step, data)
                if best and len(lines) > shown:
                    folder.keep_best()
                shown = len(lines)
                if not ended:
                    time.sleep(POLL_SECONDS)
    return say_why(process.returncode, folder.log)


def finish(config: DictConfig, folder: RunFolder, total: int) -> int:
    """Export the model with its card, then write the manifest as the mark that the run is whole."""
    from train.model_card import write_model_card
    from train.progress import seconds_taken, shown
    from train.settings import identity

    last = folder.last_checkpoint()
    if last < total:
        print(f"error: verl ended after step {last} of {total}; its output is in {folder.log}", file=sys.stderr)
        return 1
    exported = folder.best_step() if config.export == "best" else last
    if not folder.weights_of(exported).is_dir():
        print(f"error: the checkpoint of step {exported}, the best, is gone: no model is exported", file=sys.stderr)
        return 1
    folder.export(exported, config.base_model, config.variant)
    folder.prune(last)
    steps = folder.merge_metrics()
    manifest = {
        **identity(config),
        "model": model_sha256(folder.model),
        "train_rows": file_sha256(folder.train_rows),
        "val_rows": file_sha256(folder.val_rows),
        "counts": folder.read_counts(),
        "steps": total,
        "exported_step": exported,
        "attempts": folder.count_attempts(),
        "minutes": round(sum(map(seconds_taken, steps.values())) / 60, 2),
        "base_model": str(config.base_model),
    }
    write_model_card(folder.model, config, manifest, steps)
    write_json(folder.manifest, manifest)
    folder.forget_best()
    best = f", exported step {exported}" if exported < total else ""
    print(f"trained {total} steps{best}: {shown(steps[total])}\n{os.path.relpath(folder.model)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
