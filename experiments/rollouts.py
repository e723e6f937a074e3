"""The rollouts that a training run saved, as verl writes them.

They are in `rollouts/train/STEP.jsonl`, and those of the validation rows in `rollouts/val/STEP.jsonl`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, locate, parse_row
from rag_zeval.stages.training_log import Steps

WHICH = ("val", "train")
Read = TypeVar("Read")


def check_which(which: str) -> str:
    """The value of `rollouts=`. Raises InputError if it is not one of WHICH."""
    if which not in WHICH:
        raise InputError(f"rollouts={which}: choose from {', '.join(WHICH)}")
    return which


def step_files(run: Path, which: str, steps: Steps) -> dict[int, Path]:
    """The files of the steps that the log has; those of later steps are what an attempt that was cut off left."""
    paths = {step: run / "rollouts" / which / f"{step}.jsonl" for step in steps}
    return {step: path for step, path in paths.items() if path.is_file()}


def read_rollouts(path: Path, read: Callable[[Row], Read]) -> tuple[list[Read], list[str]]:
    """What `read` makes of each rollout of a step, and the lines for which it raises InputError, with place and reason.

    A last line without its end is still being written, and is left out.
    """
    found, damaged = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found.append(read(parse_row(line.decode(errors="replace"))))
        except InputError as error:
            damaged.append(f"{path.parent.name}/{path.name}:{number}: {error}")
    return found, damaged


def prompt_of(row: Row) -> str:
    """What rollouts of one prompt have in common: verl calls a rollout `<prompt>_<rollout>_<turn>`."""
    check_fields(row, {"uid": str})
    return str(row["uid"].split("_")[0])


def truth_of(row: Row) -> Row:
    """What the reward judged the rollout by: its `alphas`, its prompt's `variant` and, where it has them, `answers`."""
    check_fields(row, {"output": str, "gts": str})
    with locate("field 'gts'"):
        truth = parse_row(row["gts"])
        check_fields(truth, {"alphas": list, "variant": str})
        for alpha in truth["alphas"]:
            check_fields({"alpha": alpha}, {"alpha": (int, float)})
    return truth
