"""Measures how far quotes entail the claims that are marked as supported, in the saved rollouts of a run.

The paper's Figure 3 uses AlignScore for this. Here there are two scorers instead: any NLI model (sequence
classification) from a local folder, and for the nano world the known truth.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.training_curves import Points
from experiments.training_runs import Which, read_rollouts, step_files, truth_of
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.judge.parser import FormatError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.nli import NLI
from rag_zeval.stages import world
from rag_zeval.stages.training_log import Steps
from rag_zeval.streams import drawn
from rewards.format import good_trajectory

SPECS = "oracle (nano world only) or nli:FOLDER"
NOT_ASKED = f"not computed; --entailment takes it from the saved rollouts: {SPECS}"
Claim = tuple[str, tuple[str, ...]]  # a claim and its quotes


@dataclass(frozen=True)
class EntailmentScorer:
    """A scorer of entailment.

    score: for each claim, how far its quotes entail it, in [0, 1]; None if it cannot tell.
    """

    name: str
    score: Callable[[Sequence[Claim]], list[float | None]]


def open_scorer(spec: str) -> EntailmentScorer:
    """Open the scorer of a spec. Raise InputError for an unknown spec, and for a folder without an NLI model."""
    folder = nli_folder(spec)
    if folder is None:
        return EntailmentScorer("the exact oracle of the nano world", _by_truth)
    return EntailmentScorer(f"the NLI model {Path(folder).resolve().name}", _by_nli(folder))


def nli_folder(spec: str) -> str | None:
    """Return the folder that a spec names, or None for the oracle.

    The folder need not exist. Raises InputError for a spec that is none of SPECS.
    """
    kind, _, folder = spec.partition(":")
    if spec != "oracle" and not (kind == "nli" and folder):
        raise InputError(f"entailment {spec}: expected {SPECS}")
    return folder or None


def _by_truth(claims: Sequence[Claim]) -> list[float | None]:
    """Return for each claim 1 if a quote states it, else 0; None if it is not a claim of the nano world."""
    verdicts = (world.entailed(claim, quotes) for claim, quotes in claims)
    return [None if entailed is None else float(entailed) for entailed in verdicts]


def _by_nli(folder: str) -> Callable[[Sequence[Claim]], list[float | None]]:
    """Return a function that scores claims by the model's probability of entailment.

    The premise is all quotes of a claim, the hypothesis is the claim. The score is None if they do not fit the model.
    """
    try:
        model = NLI(folder)
    except InputError as error:
        raise InputError(f"entailment nli:{error}") from error
    known: dict[Claim, float | None] = {}  # a cache: rollouts of a prompt repeat many claims

    def score(claims: Sequence[Claim]) -> list[float | None]:
        new = [claim for claim in dict.fromkeys(claims) if claim not in known]
        known.update(zip(new, model.score([(" ".join(quotes), claim) for claim, quotes in new]), strict=True))
        return [known[claim] for claim in claims]

    return score


def entailment_by_step(run: Path, steps: Steps, which: Which, scorer: EntailmentScorer) -> tuple[Points, str]:
    """Return the mean over each step's supported claims, and a sentence on what it was computed from.

    Steps without a scored claim are left out. Raises InputError if no rollouts are saved, or if the scorer can read no
    claim.
    """
    from rich.console import Console
    from rich.progress import track

    files = step_files(run, which, steps)
    if not files:
        raise InputError(f"{run / 'rollouts' / which}: holds no rollouts of a step that is logged")
    means: list[tuple[int, float]] = []
    counts, damaged = Counter[str](), []
    screen = Console(file=drawn(sys.stdout))
    for step, path in track(files.items(), description="entailment", console=screen, transient=True):
        rollouts, broken_lines = read_rollouts(path, supported_claims)
        kept = [claims for claims in rollouts if claims is not None]
        claims = [claim for of_rollout in kept for claim in of_rollout]
        values = [value for value in scorer.score(claims) if value is not None]
        if values:
            means.append((step, sum(values) / len(values)))
        counts.update(rollouts=len(kept), broken=len(rollouts) - len(kept))
        counts.update(scored=len(values), unread=len(claims) - len(values))
        damaged += broken_lines
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
    basis = f"{counts['scored']:,} supported claims of {counts['rollouts']:,} rollouts"
    return (x, y), f"by {scorer.name}, over {basis}; left out: {listed}"


def supported_claims(row: Row) -> list[Claim] | None:
    """Return the supported claims of a rollout with their quotes, or None if the rollout breaks the format.

    Raises InputError if the row is no rollout, or if its prompt asks for no evidence.
    """
    truth = truth_of(row)
    if not find_variant(truth["variant"]).has_evidence:
        raise InputError(f"prompt variant '{truth['variant']}' asks for no evidence")
    try:
        trajectory = good_trajectory(row["output"], len(truth["alphas"]), truth["variant"], truth.get("answers"))
    except FormatError:
        return None
    claims = [claim for candidate in trajectory for claim in candidate.atomic_claims if claim.is_supported]
    return [(claim.claim, claim.grounding_evidence) for claim in claims]
