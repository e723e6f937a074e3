"""The rollouts that verl saves in a run's folder: `rollouts/val/STEP.jsonl` and `rollouts/train/STEP.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, parse_row
from rag_zeval.judge.parser import FormatError, claims_hold_text, parse_strict
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import Trajectory
from rag_zeval.stages.training_log import Steps

WHICH = ("val", "train")
Claim = tuple[str, tuple[str, ...]]  # a claim and what is quoted for it


@dataclass
class StepClaims:
    """The claims marked supported in a step's rollouts, and what of the file was left out.

    broken: rollouts that do not keep the format; damaged: lines that are no rollout, each with its place and why.
    """

    rollouts: int = 0
    broken: int = 0
    damaged: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


def step_files(run: Path, which: str, steps: Steps) -> dict[int, Path]:
    """The files of the steps that the log has; those of later steps are what an attempt that was cut off left."""
    paths = {step: run / "rollouts" / which / f"{step}.jsonl" for step in steps}
    return {step: path for step, path in paths.items() if path.is_file()}


def read_claims(path: Path) -> StepClaims:
    """The supported claims of one step; a last line that is still being written is left out."""
    step = StepClaims()
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = parse_row(line.decode(errors="replace"))
            trajectory = _read(row)
        except FormatError:
            step.broken += 1
        except InputError as error:
            step.damaged.append(f"{path.parent.name}/{path.name}:{number}: {error}")
        else:
            step.rollouts += 1
            claims = [claim for candidate in trajectory for claim in candidate.atomic_claims if claim.is_supported]
            step.claims += [(claim.claim, claim.grounding_evidence) for claim in claims]
    return step


def _read(row: Row) -> Trajectory:
    """Raises InputError if the row is no rollout, FormatError if its text does not keep the format."""
    check_fields(row, {"output": str, "gts": str})
    truth = parse_row(row["gts"])
    check_fields(truth, {"alphas": list, "variant": str})
    if not find_variant(truth["variant"]).has_evidence:
        raise InputError(f"prompt variant '{truth['variant']}' asks for no evidence")
    trajectory = parse_strict(row["output"], len(truth["alphas"]), truth["variant"])
    if not claims_hold_text(trajectory, truth["variant"]):
        raise FormatError("a supported claim quotes nothing")
    return trajectory
