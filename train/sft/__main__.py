"""`python -m train.sft key=value ...`: supervised fine-tuning with verl's SFT trainer, then export of a model folder.

It trains the ranker that Table 5 of the paper compares with reinforcement learning, or teaches a base to write
trajectories (`train.sft.rows`).

Run the same command again to resume an interrupted run. It resumes from the last checkpoint, or from the first step if
none was saved before the last step (verl.trainer.save_freq). The result is the same.
"""

import os
import random
import sys
import time

from omegaconf import DictConfig

from rag_zeval.files import write_json
from rag_zeval.stages.answer_quality import count_flags
from rag_zeval.stages.command import stage_main
from train.curriculum import flag_questions, listed, prompt_counter, read_questions, write_parquet
from train.derived_keys import sft_derived_keys
from train.launch import claimed_folder, manifest_of, run_verl
from train.plan import check_disk, count_steps
from train.run_folder import RunFolder
from train.settings import SFTSettings, read_settings
from train.sft.rows import build_rows, draw_lessons

LINES = 20  # approximate number of progress lines


def train(config: DictConfig) -> int:
    """Run the stage: write the rows once, train, and export the model.

    Returns 0: trained, or done before; 1: verl failed.
    """
    settings = read_settings(SFTSettings, config)
    with claimed_folder(settings) as folder:
        if folder is None:
            return 0
        prepare_rows(settings, folder)
        total = count_steps(settings.verl, folder.read_counts({"train_rows": int})["train_rows"])
        done = total if folder.has_model_of(total) else folder.last_checkpoint(logged_first=True)
        print(f"{total} steps of {settings.verl.data.train_batch_size} rows")
        if done:
            print(f"resuming after step {done} of {total}")
        started = time.monotonic()
        if done < total:
            check_disk(settings, total)
            keys = sft_derived_keys(settings, folder, done)
            if code := run_verl(settings, folder, keys, total, done, every=max(1, total // LINES)):
                return code
        return finish(settings, folder, total, (time.monotonic() - started) / 60)


def prepare_rows(settings: SFTSettings, folder: RunFolder) -> None:
    """Write the training rows once, in an order that depends on the seed."""
    if folder.counts.exists():
        return
    questions, failed = read_questions(settings.responses, settings.alphas, settings.half)
    flags = flag_questions(questions, {"rows": settings.rows}, settings.answer_filter)
    lessons, taken = draw_lessons(settings, questions, flags)
    random.Random(f"{settings.seed}:sft").shuffle(lessons)
    rows, counts = build_rows(settings, lessons, prompt_counter(settings.base_model))
    print(f"{len(rows)} rows; left out: {counts['too_long']} too long")
    for stage in taken:
        print(f"K={stage['k']}: {stage['sets']} sets; questions without one: {listed(stage['left_out'])}")
    write_parquet(folder.train_rows, rows)
    flagged = count_flags(flags.values())
    write_json(
        folder.counts, {"questions": len(questions), "failed": failed, "flagged": flagged, "stages": taken, **counts}
    )


def finish(settings: SFTSettings, folder: RunFolder, total: int, minutes: float) -> int:
    """Export the model, then write the manifest, which marks the run as finished.

    Returns 0, or 1 after an error message if the last checkpoint is missing.
    """
    if not folder.checkpoint(total).is_dir():
        print(f"error: verl ended without a model of step {total}; its output is in {folder.log}", file=sys.stderr)
        return 1
    folder.export(total, settings.base_model, settings.variant, part_of_checkpoint="")
    folder.merge_metrics()  # a kill may have kept verl's stage from doing so
    write_json(folder.manifest, manifest_of(settings, folder, total, minutes))
    folder.prune(0)  # after the manifest: a kill in between must not cost the whole training
    print(os.path.relpath(folder.model))
    return 0


main = stage_main("sft", train)

if __name__ == "__main__":
    sys.exit(main())
