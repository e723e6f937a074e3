"""Reads the command line of studies of training runs, `RUN [RUN ...] [key=value ...]`, and the saved rollouts.

verl writes the rollouts to `rollouts/train/STEP.jsonl`, and those of the validation rows to `rollouts/val/STEP.jsonl`.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from rag_zeval.errors import InputError, nearest
from rag_zeval.files import Row, check_fields, locate, parse_row
from rag_zeval.stages.training_log import Steps

WHICH = ("val", "train")
Read = TypeVar("Read")


def read_arguments(argv: Sequence[str], usage: str) -> tuple[list[Path], dict[str, str]]:
    """Return the folders of the runs, and the value of each key that is given. `--help` prints the usage and exits.

    usage: the help text. A line that begins with `key=`, such as `out_dir=FOLDER`, defines a key. A word is a setting
    if it begins with lower-case letters (or `_`) and `=`; every other word is a folder. Raises InputError for an
    unknown key, a key without a value, and an option with dashes.
    """
    if {"-h", "--help"} & set(argv):
        print(usage, end="")
        sys.exit(0)
    keys = re.findall(r"^([a-z_]+)=", usage, re.M)
    paths, settings = [], {}
    for word in argv:
        if word.startswith("-"):
            raise InputError(f"command line: unknown option '{word}'; write a setting as key=value, without dashes")
        if not re.match(r"[a-z_]+=", word):
            paths.append(Path(word))
            continue
        key, value = word.split("=", 1)
        if key not in keys:
            raise InputError(f"command line: unknown key '{key}'{nearest(key, keys)}")
        if not value:
            raise InputError(f"command line: '{word}' has no value")
        settings[key] = value
    return paths, settings


def check_which(which: str) -> str:
    """Return the value of `rollouts=`. Raise InputError if it is not one of WHICH."""
    if which not in WHICH:
        raise InputError(f"rollouts={which}: choose from {', '.join(WHICH)}")
    return which


def step_files(run: Path, which: str, steps: Steps) -> dict[int, Path]:
    """Return the rollout files of the logged steps.

    An interrupted attempt may have left files of later steps. These are ignored.
    """
    paths = {step: run / "rollouts" / which / f"{step}.jsonl" for step in steps}
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
        check_fields(truth, {"alphas": list, "variant": str})
        for alpha in truth["alphas"]:
            check_fields({"alpha": alpha}, {"alpha": (int, float)})
    return truth
