"""The log of a training run. verl writes one file per attempt; they are merged so that no step is duplicated."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import iter_jsonl, write_text

Steps = dict[int, dict[str, float]]
VALIDATION = "val-core/rag_zeval/reward/mean@1"  # mean reward of the validation rows, one reply each


def read_run(run: Path) -> Steps:
    """Return all steps logged so far in a run's folder.

    They come from the files of its attempts or, if only that was kept, from `metrics.jsonl`. Raises InputError if
    neither exists, and for a line that is no step.
    """
    paths = attempt_files(run / "metrics") or [path for path in [run / "metrics.jsonl"] if path.is_file()]
    if not paths:
        raise InputError(f"{run}: no training run here (neither metrics/attempt-1.jsonl nor metrics.jsonl)")
    return merge(paths)


def attempt_files(folder: Path) -> list[Path]:
    """Return the paths of `attempt-1.jsonl`, `attempt-2.jsonl`, ... in that order. Other files are left out."""
    paths = (path for path in folder.glob("attempt-*.jsonl") if re.fullmatch(r"attempt-\d+", path.stem))
    return sorted(paths, key=lambda path: int(path.stem.split("-")[1]))


def read_attempt(path: Path) -> list[tuple[int, dict[str, float]]]:
    """Return `(step, metrics)` for each line of a file; none if it does not exist. A line torn by a kill is left out.

    Raises InputError, naming file and line, for a whole line that is no step.
    """
    if not path.exists():
        return []
    lines = iter_jsonl(path, {"step": int, "data": dict}, growing=True, has_nan=True)
    return [(row["step"], row["data"]) for _, row in lines]


def merge(paths: Iterable[Path]) -> Steps:
    """Merge all attempts. Each attempt replaces what earlier ones logged from its own first step on."""
    steps: Steps = {}
    for path in paths:
        seen: Steps = {}
        for step, data in read_attempt(path):
            seen.setdefault(step, {}).update(data)
        steps = {step: data for step, data in steps.items() if step < min(seen, default=step + 1)} | seen
    return dict(sorted(steps.items()))


def write_merged(path: Path, steps: Steps) -> None:
    rows = ({"step": step, "data": data} for step, data in steps.items())
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def logged_through(steps: Steps) -> int:
    """Return the last step N such that all of 1..N are logged. Step 0, validation before training, does not count."""
    last = 0
    while last + 1 in steps:
        last += 1
    return last


def validation_rewards(steps: Steps) -> dict[int, float]:
    """Return the validation reward of each step that has one. Step 0 is the base, before training."""
    return {step: data[VALIDATION] for step, data in steps.items() if data.get(VALIDATION) is not None}


def best_step(steps: Steps) -> int:
    """Return the training step with the highest validation reward, the earliest of equals; 0 if none was validated."""
    rewards, through = validation_rewards(steps), logged_through(steps)
    trained = [step for step in rewards if 0 < step <= through]
    return max(trained, key=lambda step: (rewards[step], -step), default=0)
