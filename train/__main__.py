"""`python -m train key=value ...`: build the curriculum rows, train with verl's GRPO, and export a model folder."""

import os
import sys

from omegaconf import DictConfig

from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, locate, write_json
from rag_zeval.stages.command import stage_main
from rag_zeval.stages.training_log import best_step
from train.curriculum import build_curriculum, check_answers, describe, prompt_counter, read_questions, write_parquet
from train.derived_keys import derived_keys
from train.gpu_memory import misfit, read_setup
from train.launch import claimed_folder, manifest_of, run_verl
from train.model_card import write_model_card
from train.model_shape import read_shape
from train.plan import check_disk, count_steps, describe_steps, narrow_window, print_plan
from train.run_folder import RunFolder
from train.settings import Stage, TrainSettings, read_settings
from train.step_lines import seconds_taken, shown
from train.verl_config import build


def train(config: DictConfig) -> int:
    """Run the stage. It skips parts that are done already, so the same command resumes an interrupted run.

    Returns 0: trained, or done before; 1: verl failed.
    """
    settings = read_settings(TrainSettings, config)
    if settings.dry_run:
        return print_plan(settings)
    if problem := narrow_window(settings):
        raise InputError(problem)
    check_memory(settings)
    with claimed_folder(settings) as folder:
        if folder is None:
            return 0
        prepare_rows(settings, folder)
        counts = folder.read_counts({"train_rows": int, "val_rows": int, "stages": dict})
        total, done = count_steps(settings.verl, counts["train_rows"]), folder.last_checkpoint()
        train_stages = [stage for name, stage in counts["stages"].items() if name.startswith("train")]
        with locate(folder.counts):
            known = [check_fields(stage, {"k": int, "rows": int}) for stage in train_stages]
        print(describe_steps(settings.verl, [Stage(stage["k"], stage["rows"]) for stage in known]))
        if done < total:
            check_disk(settings, total)
            if done:
                print(f"resuming after step {done} of {total}")
            keys = derived_keys(settings, folder, done, counts["val_rows"])
            if code := run_verl(settings, folder, keys, total, done):
                return code
        return finish(settings, folder, total)


def prepare_rows(settings: TrainSettings, folder: RunFolder) -> None:
    """Write the training and validation rows once. Raises InputError if existing rows lack what the reward needs."""
    if folder.counts.exists():
        for path in (folder.train_rows, folder.val_rows):
            check_answers(path, settings.variant)
        return
    questions, failed = read_questions(settings.responses, settings.alphas, settings.half)
    curriculum = build_curriculum(settings, questions, prompt_counter(settings.base_model))
    print(*describe(curriculum.counts), sep="\n")
    write_parquet(folder.train_rows, curriculum.train)
    write_parquet(folder.val_rows, curriculum.val)
    counts = {"questions": len(questions), "failed": failed, "flagged": curriculum.flagged, "stages": curriculum.counts}
    write_json(folder.counts, {**counts, "train_rows": len(curriculum.train), "val_rows": len(curriculum.val)})


def check_memory(settings: TrainSettings) -> None:
    """Raise InputError if the run cannot fit into GPUs of `gpu_memory_gib`, before anything is started."""
    if settings.platform != "gpu" or settings.gpu_memory_gib is None:
        return
    shape, where = read_shape(settings.base_model)
    if shape is None:
        print(f"GPU memory is not checked: {where}")
    elif problem := misfit(shape, read_setup(build(settings.verl, {})), settings.gpu_memory_gib):
        raise InputError(problem)


def finish(settings: TrainSettings, folder: RunFolder, total: int) -> int:
    """Export the model with its card, then write the manifest, which marks the run as finished.

    Returns 0, or 1 after an error message if verl ended early or the checkpoint to export is missing.
    """
    last = folder.last_checkpoint()
    if last < total:
        print(f"error: verl ended after step {last} of {total}; its output is in {folder.log}", file=sys.stderr)
        return 1
    exported = best_step(folder.steps()) if settings.export == "best" else last
    if not folder.weights_of(exported).is_dir():
        print(f"error: the checkpoint of step {exported}, the best, is missing: no model is exported", file=sys.stderr)
        return 1
    folder.export(exported, settings.base_model, settings.variant)
    folder.prune(last)
    steps = folder.merge_metrics()
    minutes = sum(map(seconds_taken, steps.values())) / 60
    manifest = manifest_of(settings, folder, total, minutes, exported)
    write_model_card(folder.model, settings, manifest, steps)
    write_json(folder.manifest, manifest)
    folder.forget_best()
    best = f", exported step {exported}" if exported < total else ""
    print(f"trained {total} steps{best}: {shown(steps[total])}\n{os.path.relpath(folder.model)}")
    return 0


main = stage_main("train", train)

if __name__ == "__main__":
    sys.exit(main())
