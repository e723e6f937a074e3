"""What studies of training runs read: their command line, `RUN [RUN ...] [key=value ...]`, and the saved rollouts.

verl writes the rollouts: `rollouts/train/STEP.jsonl`, and for the validation rows `rollouts/val/STEP.jsonl`.
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
    """The folders of the runs, and the value of each key that is given; `--help` prints the usage and exits.

    usage: the keys are those that begin a line of it, such as `out_dir=FOLDER`. A word is a setting if it begins with
    lower-case letters and `=`; every other word is a folder. Raises InputError for an unknown key, a key without a
    value, and an option with dashes.
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
    """The value of `rollouts=`. Raises InputError if it is not one of WHICH."""
    if which not in WHICH:
        raise InputError(f"rollouts={which}: choose from {', '.join(WHICH)}")
    return which


def step_files(run: Path, which: str, steps: Steps) -> dict[int, Path]:
    """The files of the steps that are in the log; an interrupted attempt may have left files of later steps."""
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
