"""Reads the rollouts that training runs saved.

Rollouts are in `rollouts/train/STEP.jsonl`, those of the validation rows in `rollouts/val/STEP.jsonl`. verl writes
both, `train.one_gpu` the former.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, locate, parse_row
from rag_zeval.stages.training_log import Steps

Which = Literal["val", "train"]
Read = TypeVar("Read")


def rollout_file(run: Path, which: Which, step: int) -> Path:
    return run / "rollouts" / which / f"{step}.jsonl"


def step_files(run: Path, which: Which, steps: Steps) -> dict[int, Path]:
    """Return the rollout files of the logged steps.

    An interrupted attempt may have left files of later steps. These are ignored.
    """
    paths = {step: rollout_file(run, which, step) for step in steps}
    return {step: path for step, path in paths.items() if path.is_file()}


def read_rollouts(path: Path, read: Callable[[Row], Read]) -> tuple[list[Read], list[str]]:
    """Apply `read` to each rollout of a step. Return the results, and place and reason of each damaged line.

    A line is damaged if it is no JSON object or `read` raises InputError. A last line without a line break is ignored,
    because it is still being written.
    """
    found, damaged = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found.append(read(parse_row(line.decode(errors="replace"))))
        except InputError as error:
            damaged.append(f"{path.parent.name}/{path.name}:{number}: {error}")
    return found, damaged


def prompt_of(row: Row) -> str:
    """Return the part of the id that rollouts of one prompt share: verl's id is `<prompt>_<rollout>_<turn>`."""
    check_fields(row, {"uid": str})
    return str(row["uid"].split("_")[0])


def truth_of(row: Row) -> Row:
    """Return what the reward used for a rollout: `alphas`, the prompt's `variant` and, if present, the `answers`."""
    check_fields(row, {"output": str, "gts": str})
    with locate("field 'gts'"):
        truth = parse_row(row["gts"])
        check_fields(truth, {"alphas": [(int, float)], "variant": str})
    return truth
