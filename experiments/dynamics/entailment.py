"""Does the evidence entail the claim? Computed afterwards, over saved rollouts, for the claims marked supported.

The paper's Figure 3 has AlignScore here. Two scorers stand in its place: any NLI model of sequence classification from
a local folder, and for the nano world the truth itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from eval_benchmarks.output.curves import Points
from experiments.dynamics.rollouts import Claim, read_claims, step_files
from rag_zeval.errors import InputError
from rag_zeval.models.nli import NLI
from rag_zeval.stages import world
from rag_zeval.stages.training_log import Steps

SPECS = "oracle (nano world only) or nli:FOLDER"
NOT_ASKED = f"not computed; entailment={SPECS} takes it from the saved rollouts"


class Scorer(Protocol):
    """Says of claims with their quotes how far the quotes entail the claim, in [0, 1]; None: it cannot say."""

    name: str

    def score(self, claims: Sequence[Claim]) -> list[float | None]:
        """A value for each claim."""


def open_scorer(spec: str) -> Scorer:
    """Raises InputError for a spec that is none of SPECS, and for a folder without an NLI model."""
    kind, _, folder = spec.partition(":")
    if spec == "oracle":
        return Oracle()
    if kind == "nli" and folder:
        return ByNLI(folder)
    raise InputError(f"entailment={spec}: expected {SPECS}")


class Oracle:
    """The nano world's own truth: 1 if a quote states the claimed fact, else 0; None for what is no claim of it."""

    name = "the exact oracle of the nano world"

    def score(self, claims: Sequence[Claim]) -> list[float | None]:
        found = (world.entailed(claim, quotes) for claim, quotes in claims)
        return [None if entailed is None else float(entailed) for entailed in found]


class ByNLI:
    """The model's probability, quotes in a row as premise and the claim as hypothesis; None where they do not fit."""

    def __init__(self, folder: str):
        try:
            self._model = NLI(folder)
        except InputError as error:
            raise InputError(f"entailment=nli:{error}") from error
        self.name = f"the NLI model {Path(folder).resolve().name}"
        self._known: dict[Claim, float | None] = {}  # rollouts of a prompt say much the same

    def score(self, claims: Sequence[Claim]) -> list[float | None]:
        new = [claim for claim in dict.fromkeys(claims) if claim not in self._known]
        values = self._model.score([(" ".join(quotes), claim) for claim, quotes in new])
        self._known |= zip(new, values, strict=True)
        return [self._known[claim] for claim in claims]


@dataclass(frozen=True)
class Entailment:
    """Mean over a step's supported claims, for each step that has any, and a sentence on what it was computed from."""

    points: Points
    said: str


def entailment_by_step(run: Path, steps: Steps, which: str, scorer: Scorer) -> Entailment:
    """Raises InputError if nothing can be computed: no rollouts saved, or no claim that the scorer can read."""
    from rich.progress import track

    files = step_files(run, which, steps)
    if not files:
        raise InputError(f"{run / 'rollouts' / which}: holds no rollouts of a step that is logged")
    means: list[tuple[int, float]] = []
    rollouts = broken = scored = unread = 0
    damaged: list[str] = []
    for step, path in track(files.items(), description="entailment", transient=True):
        found = read_claims(path)
        values = [value for value in scorer.score(found.claims) if value is not None]
        if values:
            means.append((step, sum(values) / len(values)))
        rollouts, broken, scored = rollouts + found.rollouts, broken + found.broken, scored + len(values)
        unread, damaged = unread + len(found.claims) - len(values), damaged + found.damaged
    left_out = {
        "rollouts without the format": broken,
        "claims it cannot read": unread,
        "lines that are no rollouts": len(damaged),
    }
    counted = ", ".join(f"{count:,} {what}" for what, count in left_out.items() if count) or "nothing"
    first = f" (first: {damaged[0]})" if damaged else ""
    if not means:
        raise InputError(f"no claim that {scorer.name} could say anything of; left out: {counted}{first}")
    said = f"by {scorer.name}, over {scored:,} supported claims of {rollouts:,} rollouts; left out: {counted}{first}"
    x, y = np.array(means, dtype=float).T
    return Entailment((x, y), said)
