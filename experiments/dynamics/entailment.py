"""Does the evidence entail the claim? Computed afterwards, over saved rollouts, for the claims marked supported.

verl saves them in a run's folder: `rollouts/val/STEP.jsonl` and `rollouts/train/STEP.jsonl`.

The paper's Figure 3 has AlignScore here. Two scorers stand in its place: any NLI model of sequence classification from
a local folder, and for the nano world the truth itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from eval_benchmarks.output.curves import Points
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, json_lines, parse_row
from rag_zeval.judge.parser import FormatError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import Trajectory
from rag_zeval.models.nli import NLI
from rag_zeval.stages import world
from rag_zeval.stages.training_log import Steps
from rewards.format import good_trajectory

SPECS = "oracle (nano world only) or nli:FOLDER"
NOT_ASKED = f"not computed; entailment={SPECS} takes it from the saved rollouts"
WHICH = ("val", "train")
Claim = tuple[str, tuple[str, ...]]  # a claim and what is quoted for it


@dataclass(frozen=True)
class Scorer:
    """`score` says of each claim with its quotes how far they entail it, in [0, 1]; None: it cannot say."""

    name: str
    score: Callable[[Sequence[Claim]], list[float | None]]


def open_scorer(spec: str) -> Scorer:
    """Raises InputError for a spec that is none of SPECS, and for a folder without an NLI model."""
    kind, _, folder = spec.partition(":")
    if spec == "oracle":
        return Scorer("the exact oracle of the nano world", _by_truth)
    if kind == "nli" and folder:
        return Scorer(f"the NLI model {Path(folder).resolve().name}", _by_nli(folder))
    raise InputError(f"entailment={spec}: expected {SPECS}")


def _by_truth(claims: Sequence[Claim]) -> list[float | None]:
    """1 if a quote states the claimed fact, else 0; None for what is no claim of the nano world."""
    verdicts = (world.entailed(claim, quotes) for claim, quotes in claims)
    return [None if entailed is None else float(entailed) for entailed in verdicts]


def _by_nli(folder: str) -> Callable[[Sequence[Claim]], list[float | None]]:
    """The model's probability, quotes in a row as premise and the claim as hypothesis; None where they do not fit."""
    try:
        model = NLI(folder)
    except InputError as error:
        raise InputError(f"entailment=nli:{error}") from error
    known: dict[Claim, float | None] = {}  # rollouts of a prompt say much the same

    def score(claims: Sequence[Claim]) -> list[float | None]:
        new = [claim for claim in dict.fromkeys(claims) if claim not in known]
        known.update(zip(new, model.score([(" ".join(quotes), claim) for claim, quotes in new]), strict=True))
        return [known[claim] for claim in claims]

    return score


def entailment_by_step(run: Path, steps: Steps, which: str, scorer: Scorer) -> tuple[Points, str]:
    """Mean over a step's supported claims, for each step that has any, and a sentence on what it was computed from.

    Raises InputError if nothing can be computed: no rollouts saved, or no claim that the scorer can read.
    """
    from rich.progress import track

    files = step_files(run, which, steps)
    if not files:
        raise InputError(f"{run / 'rollouts' / which}: holds no rollouts of a step that is logged")
    means: list[tuple[int, float]] = []
    counts, damaged = Counter[str](), []
    for step, path in track(files.items(), description="entailment", transient=True):
        read = read_claims(path)
        values = [value for value in scorer.score(read.claims) if value is not None]
        if values:
            means.append((step, sum(values) / len(values)))
        unread = len(read.claims) - len(values)
        counts.update(rollouts=read.rollouts, broken=read.broken, scored=len(values), unread=unread)
        damaged += read.damaged
    left_out = {
        "rollouts without the format": counts["broken"],
        "claims it cannot read": counts["unread"],
        "lines that are not rollouts": len(damaged),
    }
    listed = ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count) or "nothing"
    listed += f" (first: {damaged[0]})" if damaged else ""
    if not means:
        raise InputError(f"no claim that {scorer.name} could say anything of; left out: {listed}")
    x, y = np.array(means, dtype=float).T
    claims = f"{counts['scored']:,} supported claims of {counts['rollouts']:,} rollouts"
    return (x, y), f"by {scorer.name}, over {claims}; left out: {listed}"


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
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    for number, row in json_lines(lines, dict):
        try:
            if isinstance(row, InputError):
                raise row
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
    return good_trajectory(row["output"], len(truth["alphas"]), truth["variant"], truth.get("answers"))
