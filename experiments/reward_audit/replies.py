"""Reads a judge's replies, prompt by prompt, from the rollouts of a training run or the rows of a bench."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_benchmarks.bench_manifest import read_bench
from eval_benchmarks.trials import Trial
from experiments.training_runs import Which, prompt_of, read_rollouts, step_files, truth_of
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, locate
from rag_zeval.judge.parser import FormatError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation, Trajectory
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.stages import world
from rag_zeval.stages.training_log import read_run
from rewards.format import EchoDiffers, good_trajectory, repeats_answer

PART = 5  # the early steps are the first fifth of all steps, the late steps the last fifth


@dataclass(frozen=True)
class Reply:
    """One reply to a prompt. Replies with the same `prompt` are resampled together.

    trajectory: None if the reply has no valid one. alphas: of the answers; None if they have none. echo_differs:
    whether the reply does not repeat the answers; None if the prompt does not ask for it.
    """

    prompt: str
    passage: str
    answers: Sequence[str]
    trajectory: Trajectory | None
    alphas: Sequence[float] | None = None
    echo_differs: bool | None = None

    @cached_property
    def facts(self) -> world.Facts | None:
        """The facts that the passage states, if it is one of the nano world, where the truth is known; else None."""
        return world.passage_facts(self.passage)


@dataclass
class Replies:
    """The replies of one side of a comparison.

    damaged: the lines that are no rollout, each with its place and the reason.
    """

    label: str
    replies: list[Reply] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BeforeAndAfter:
    """The two sides of a comparison: early and late steps, or the base and the trained judge."""

    name: str
    before: Replies
    after: Replies

    @property
    def paired(self) -> bool:
        """Whether both sides are about the same prompts."""
        of_before, of_after = ({reply.prompt for reply in side.replies} for side in (self.before, self.after))
        return of_before == of_after


def of_run(run: Path, which: Which) -> BeforeAndAfter:
    """Return the rollouts ("train" or "val") of a run's early steps, and those of its late steps, to compare them.

    Raises InputError if fewer than two steps have rollouts, or if a side has none that can be read.
    """
    files = step_files(run, which, read_run(run))
    if len(files) < 2:
        raise InputError(
            f"{run / 'rollouts' / which}: rollouts of {len(files)} logged steps; early and late steps need two"
        )
    steps = sorted(files)
    n = -(-len(steps) // PART) if len(steps) > 2 else 1
    sides = [_of_steps(files, part) for part in (steps[:n], steps[-n:])]
    return BeforeAndAfter("validation rollouts" if which == "val" else "training rollouts", *sides)


def _of_steps(files: dict[int, Path], steps: Sequence[int]) -> Replies:
    side = Replies(f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}")
    for step in steps:
        replies, damaged = read_rollouts(files[step], _rollout)
        side.replies += replies
        side.damaged += damaged
    if not side.replies:
        first = f" (first: {side.damaged[0]})" if side.damaged else ""
        raise InputError(f"{files[steps[0]].parent}: no rollout of {side.label} can be read{first}")
    return side


def _rollout(row: Row) -> Reply:
    """Read a rollout. Raise InputError if the row is none."""
    check_fields(row, {"input": str})
    truth, shown = truth_of(row), _inputs(row["input"])
    answers, alphas = list(shown["candidates"].values()), [float(alpha) for alpha in truth["alphas"]]
    if len(answers) != len(alphas):
        raise InputError(f"{len(answers)} candidates, but {len(alphas)} alphas")
    variant = find_variant(truth["variant"])
    trajectory, differs = None, False
    try:
        trajectory = good_trajectory(row["output"], len(answers), variant.name, answers)
    except FormatError as error:
        differs = isinstance(error, EchoDiffers)
    echo = differs if variant.echo_answer else None
    return Reply(prompt_of(row), shown["reference"], answers, trajectory, alphas, echo)


def _inputs(prompt: str) -> Row:
    """Return the JSON object in the judge's prompt. Its texts are escaped, so none can imitate its beginning."""
    at = prompt.find('{"question": ')
    try:
        found: Any = json.JSONDecoder().raw_decode(prompt, at)[0] if at >= 0 else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"field 'input' holds no inputs of a judge: {str(error).splitlines()[0]}") from error
    with locate("field 'input'"):
        return check_fields(found, {"reference": str, "candidates": {str: str}})


def of_bench(bench: Path) -> list[BeforeAndAfter]:
    """Return the replies of the first and the last model of a bench, for each data set that rag_zeval judged with both.

    Raises InputError if the bench is not finished or rag_zeval judged nothing with two models.
    """
    judged = [trial for trial in read_bench(bench)[1] if trial.scorer == RagZeval.name and trial.model is not None]
    models = list(dict.fromkeys(trial.model for trial in judged))
    if len(models) < 2:
        raise InputError(f"{bench}: rag_zeval judged with {len(models)} models; before and after need two")
    comparisons = []
    for name in dict.fromkeys(trial.benchmark.name for trial in judged):
        of_both = [
            [trial for trial in judged if (trial.benchmark.name, trial.model) == (name, model)]
            for model in (models[0], models[-1])
        ]
        if all(of_both):
            before, after = map(_of_trials, of_both)
            if before.replies and after.replies:
                comparisons.append(BeforeAndAfter(name, before, after))
    if not comparisons:
        raise InputError(f"{bench}: no data set has replies of rag_zeval with two models")
    return comparisons


def _of_trials(trials: Sequence[Trial]) -> Replies:
    side = Replies(str(trials[0].model))
    for trial in trials:
        for example in trial.benchmark.examples:
            if (scored := trial.scored.get(example.id)) is not None:
                trajectory = _trajectory(scored.parts.get("trajectory"))
                echoes = [candidate.answer for candidate in trajectory or ()]
                pairs = zip(echoes, example.answers, strict=False)
                asked = bool(echoes) and None not in echoes
                differs = not all(repeats_answer(echo or "", answer) for echo, answer in pairs) if asked else None
                alphas = trial.benchmark.alphas.get(example.id)
                side.replies.append(Reply(example.id, example.reference, example.answers, trajectory, alphas, differs))
    return side


def _trajectory(candidates: list[Row | None] | None) -> Trajectory | None:
    """Rebuild a trajectory from its `schema.as_json`; None if the judgement of an answer is missing."""
    read = [candidate for candidate in candidates or () if candidate is not None]
    if candidates is None or len(read) < len(candidates):
        return None
    return tuple(
        CandidateEvaluation(
            letter,
            tuple(
                AtomicClaim(**{**claim, "grounding_evidence": tuple(claim["grounding_evidence"])})
                for claim in candidate["atomic_claims"]
            ),
            candidate["answer"],
        )
        for letter, candidate in zip(LETTERS, read, strict=False)
    )
