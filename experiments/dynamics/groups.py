"""Which groups of rollouts a run could learn from: an advantage is what a reward has more than its group's mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

from experiments.dynamics.entailment import step_files
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, check_fields, json_lines
from rag_zeval.stages.training_log import Steps
from rewards.combined import RIGHT
from rewards.format import PENALTY

RANKING, FORMAT, EVIDENCE, NOTHING = "the ranking", "the format alone", "the evidence alone", "nothing"
ROLLOUT: FieldTypes = {"uid": str, "score": (int, float)}


def count_groups(run: Path, steps: Steps) -> Counter[str]:
    """Of how many prompts the rollouts that are saved differ in what is rewarded: by the first of these four that fits.

    verl calls a rollout `<prompt>_<rollout>_<turn>`. What is no rollout, or not written to its end, is left out.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for path in step_files(run, "train", steps).values():
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        for _, row in json_lines(lines, partial(check_fields, required=ROLLOUT)):
            if not isinstance(row, InputError):
                groups[row["uid"].split("_")[0]].append(row["score"])
    return Counter(map(_difference, groups.values()))


def describe_groups(counts: Counter[str]) -> str:
    """`rollouts differ in the ranking for 54 of 112 prompts, in the format alone for 4, ...`; empty without any."""
    rest = ", ".join(f"in {kind} for {counts[kind]}" for kind in (FORMAT, EVIDENCE, NOTHING))
    return f"rollouts differ in {RANKING} for {counts[RANKING]} of {counts.total()} prompts, {rest}" if counts else ""


def _difference(rewards: list[float]) -> str:
    if len({reward >= RIGHT for reward in rewards}) > 1:
        return RANKING
    if len({reward == PENALTY for reward in rewards}) > 1:
        return FORMAT
    return EVIDENCE if len(set(rewards)) > 1 else NOTHING
