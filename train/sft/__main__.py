"""`python -m train.sft key=value ...`: the SFT ranker, through verl's SFT trainer, then a plain model folder.

It learns to write the letters of the candidates that training ranks, best first: what Table 5 of the paper compares
reinforcement learning with. A run that is cut off keeps its rows and trains again
from the first step: the same command ends as if nothing had happened.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import file_sha256, model_sha256, write_json
from rag_zeval.judge.prompt import RANKING
from rag_zeval.stages.config import load_config

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from train.run_folder import RunFolder

LINES = 20  # of progress


def main(argv: Sequence[str] | None = None) -> int:
    """0: trained, or done before; 1: verl failed; 2: the input is wrong; 130: interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return exit_status(lambda: train(load_config("sft", sys.argv[1:] if argv is None else argv)))


def train(config: DictConfig) -> int:
    """The stage: rows once, then training and export."""
    from train.launch import stop_leftovers
    from train.plan import count_steps
    from train.run_folder import RunFolder
    from train.verl_config import SFT, check_keys, schema

    check_settings(config)
    check_keys(config.verl, schema(SFT), SFT)
    folder = RunFolder(config.out_dir)
    with folder.locked():
        stop_leftovers(folder.path)
        folder.claim(identity(config))
        if folder.manifest.exists():
            print(f"done already: {folder.model}")
            return 0
        prepare_rows(config, folder)
        total = count_steps(config, folder.read_counts()["train_rows"])
        print(f"{total} steps of {config.verl.data.train_batch_size} rows")
        started = time.monotonic()
        code = run_verl(config, folder, total)
        return code or finish(config, folder, total, (time.monotonic() - started) / 60)


def check_settings(config: DictConfig) -> None:
    """Raises InputError for settings that could only fail later, or quietly do something else."""
    from train.settings import check_checkpoint, read_filter

    read_filter(config)
    if config.platform not in ("cpu", "gpu"):
        raise InputError(f"platform={config.platform}: there is cpu, gpu")
    check_checkpoint("verl.checkpoint", config.verl.checkpoint, config.verl.model.get("lora_rank"))
    data, devices = config.verl.data, config.verl.trainer.n_gpus_per_node
    share = data.train_batch_size / devices
    if share % 1 or (not data.use_dynamic_bsz and share % data.micro_batch_size_per_gpu):
        raise InputError(
            f"verl.data.train_batch_size={data.train_batch_size} does not divide among {devices} devices into "
            f"micro-batches of verl.data.micro_batch_size_per_gpu={data.micro_batch_size_per_gpu}"
        )


def identity(config: DictConfig) -> dict[str, Any]:
    """What the run is made of: all settings that bind, the prompt, and the contents of what it reads."""
    from omegaconf import OmegaConf

    from train.settings import base_sha256, responses_sha256

    settings: Any = OmegaConf.to_container(config, resolve=True)
    for key in ("out_dir", "responses", "base_model", "threads"):
        del settings[key]
    return {
        "config": settings,
        "prompt_hash": RANKING.prompt_hash,
        "responses": responses_sha256(config.responses),
        "base": base_sha256(config.base_model),
    }


def prepare_rows(config: DictConfig, folder: RunFolder) -> None:
    """Write the training rows once, in an order that the seed gives."""
    from rag_zeval.stages.answer_quality import count_flags
    from train.curriculum import flag_questions, listed, prompt_counter, read_questions, read_stages, write_parquet
    from train.settings import read_filter
    from train.sft.rows import build_rows, draw_candidates

    if folder.counts.exists():
        return
    questions, failed = read_questions(config.responses, config.alphas)
    stages = read_stages(config.rows, "rows")
    flags = flag_questions(questions, stages, read_filter(config))
    drawn, taken = draw_candidates(questions, stages, config.seed, flags)
    random.Random(f"{config.seed}:sft").shuffle(drawn)
    rows, counts = build_rows(drawn, prompt_counter(config.base_model), config.verl.data.max_length)
    print(f"{len(rows)} rows; left out: {counts['too_long']} too long")
    for stage in taken:
        print(f"K={stage['k']}: {stage['sets']} sets; questions without one: {listed(stage['left_out'])}")
    write_parquet(folder.train_rows, rows)
    flagged = count_flags(flags.values())
    write_json(
        folder.counts, {"questions": len(questions), "failed": failed, "flagged": flagged, "stages": taken, **counts}
    )


def derived_keys(config: DictConfig, folder: RunFolder) -> dict[str, Any]:
    """The keys of verl's config that follow from the stage's own settings."""
    local = Path(config.base_model).is_dir()
    return {
        "data.train_files": str(folder.train_rows),
        "model.path": str(Path(config.base_model).resolve()) if local else config.base_model,
        "trainer.default_local_dir": str(folder.checkpoints),
        "trainer.resume_mode": "disable",
        "trainer.save_freq": -1,  # verl saves the last step all the same
    }


def run_verl(config: DictConfig, folder: RunFolder, total: int) -> int:
    """Train from the first step; 0 when verl ended well, else 1, having said why."""
    from train.launch import environment, running_verl, say_why, worker_variables
    from train.verl_config import SFT, build

    verl = build(config.verl, derived_keys(config, folder), SFT)
    attempt = folder.start_attempt(verl, after=0)
    variables = worker_variables(
        folder.path,
        attempt,
        cpu=config.platform == "cpu",
        threads=config.threads,
        offline=Path(config.base_model).is_dir(),
    )
    env = environment(variables, own_ray=None)
    torchrun = ("torch.distributed.run", "--standalone", f"--nproc_per_node={verl.trainer.n_gpus_per_node}")
    program = (*torchrun, "-m", "verl.trainer.sft_trainer")
    with running_verl(folder.path, folder.verl_config, folder.log, env, program) as process:
        show_steps(process, attempt, total)
    folder.merge_metrics()
    return say_why(process.returncode, folder.log)


def show_steps(process: subprocess.Popen[bytes], attempt: Path, total: int) -> None:
    """A line for about every twentieth of the steps, until the process ends."""
    from rag_zeval.stages.training_log import read_attempt
    from train.__main__ import POLL_SECONDS

    every, shown, ended = max(1, total // LINES), 0, False
    first: tuple[int, float] | None = None  # step and time of the first line: starting takes long, steps do not
    while not ended:
        ended = process.poll() is not None  # asked first: what was logged before the end is then read
        for step, data in read_attempt(attempt)[shown:]:
            shown += 1
            first = first or (step, time.monotonic())
            if step % every == 0 or step == total:
                pace = (time.monotonic() - first[1]) / max(1, step - first[0])
                left = f"  {pace * (total - step) / 60:.1f} min left" if step > first[0] else ""
                print(f"step {step}/{total}  loss {data['train/loss']:.4f}{left}", flush=True)
        if not ended:
            time.sleep(POLL_SECONDS)


def finish(config: DictConfig, folder: RunFolder, total: int, minutes: float) -> int:
    """Export the model, then write the manifest as the mark that the run is whole."""
    if not folder.checkpoint(total).is_dir():
        print(f"error: verl ended without a model of step {total}; its output is in {folder.log}", file=sys.stderr)
        return 1
    folder.export(total, config.base_model, RANKING.name, part_of_checkpoint="")
    folder.prune(0)
    write_json(
        folder.manifest,
        {
            **identity(config),
            "model": model_sha256(folder.model),
            "train_rows": file_sha256(folder.train_rows),
            "counts": folder.read_counts(),
            "steps": total,
            "attempts": folder.count_attempts(),
            "minutes": round(minutes, 2),
            "base_model": str(config.base_model),
        },
    )
    print(os.path.relpath(folder.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
