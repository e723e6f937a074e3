"""Reads training runs for the figures: every curve by name, and the reason for each missing one."""

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

import numpy as np

from experiments.dynamics.entailment import NOT_ASKED, EntailmentScorer, entailment_by_step
from experiments.markdown import mean_figure
from experiments.training_curves import METRICS, Curves, Points, by_step, read_curves, read_points, switches
from experiments.training_runs import Which, prompt_of, read_rollouts, step_files, truth_of
from rag_zeval.errors import InputError
from rag_zeval.files import NUMBER_OR_NONE, Row, check_fields, check_object
from rag_zeval.stages.training_log import Steps, attempt_files, read_run
from rag_zeval.statistics.weighted_correlations import Floats
from rewards.combined import RIGHT
from rewards.format import PENALTY

VALIDATION = "val-aux/rag_zeval/{}/mean@1"  # log name of a part of the reward, on the validation rows

PARTS_OF_STEPS = 4  # parts of its steps in which a run is compared with another one

RANKING, FORMAT, EVIDENCE, NOTHING = "the ranking", "the format alone", "the evidence alone", "nothing"

# parts of the reward that are drawn for the validation rows, each with the part that must be above 0 to measure it
PARTS = {"accuracy": None, "evidence": "quote_tokens", "claims": "claims"}


@dataclass(frozen=True)
class DrawnRun:
    """A run with all that the figures show of it.

    curves: a value for each step, to be smoothed. points: values for some steps. missing: why a name is in neither.
    state: in words, how far the run is and what its rollouts differ in. entailment: what that curve was computed from,
    or None without that curve.
    """

    name: str
    state: str
    curves: Curves
    points: dict[str, Points]
    missing: dict[str, str]
    entailment: str | None

    def has(self, name: str) -> bool:
        return name in self.curves or name in self.points

    @property
    def last_step(self) -> int:
        return len(self.curves["reward"])


@dataclass(frozen=True)
class RolloutGroup:
    """The rollouts of one prompt in a step. asked: the text of the prompt. rewards: one for each rollout."""

    step: int
    asked: str
    rewards: list[float]

    @property
    def reward(self) -> float:
        return mean(self.rewards)

    @property
    def right(self) -> float:
        """The share of rollouts that rank the answers right."""
        return mean(float(reward >= RIGHT) for reward in self.rewards)


def read_runs(paths: Sequence[Path], which: Which, scorer: EntailmentScorer | None) -> list[DrawnRun]:
    """Read the runs. Each is named by the part of its path in which the paths differ.

    which: compute entailment over the "val" or the "train" rollouts. Each run after the first is also compared with the
    first, on the prompts that both had. Raises InputError for a folder without the log of a reinforcement-learning run.
    """
    paths = [path.resolve() for path in paths]
    above = os.path.commonpath([path.parent for path in paths]) if len(paths) > 1 else paths[0].parent.parent
    runs = []
    first: tuple[list[RolloutGroup], str] | None = None
    for path in dict.fromkeys(paths):
        run, groups = _read(path, os.path.relpath(path, above), which, scorer)
        beside = describe_beside(groups, *first) if first else ""
        runs.append(replace(run, state="; ".join(filter(None, (run.state, beside)))))
        first = first or (groups, run.name)
    return runs


def _read(path: Path, name: str, which: Which, scorer: EntailmentScorer | None) -> tuple[DrawnRun, list[RolloutGroup]]:
    steps = read_run(path)
    for step, data in steps.items():
        check_object(f"{path}: step {step}", {"data": data}, {"data": {str: (bool, *NUMBER_OR_NONE)}})
    logged = read_curves(steps)
    if "reward" not in logged:
        raise InputError(f"{path}: no step with {METRICS['reward']} is logged, so there is nothing to draw")
    curves, points = derived_curves(logged), validation_points(steps)
    missing = {name: f"{metric} is not in the log" for name, metric in METRICS.items()}
    missing |= dict.fromkeys(logged.keys() - curves.keys(), "no rollout quotes anything")
    missing |= {f"val_{name}": "not measured on the validation rows" for name in ("reward", *PARTS)}
    missing |= {"failures": missing["format"], "claims_middle": "no step has more than two candidates"}
    missing |= {"entailment": NOT_ASKED}
    source = None
    if scorer is not None:
        try:
            entailment, source = entailment_by_step(path, steps, which, scorer)
        except InputError as error:  # the other curves can still be drawn
            missing["entailment"] = str(error)
        else:
            if which == "val":
                points["entailment"] = entailment
            else:
                curves["entailment"] = by_step(entailment, len(logged["reward"]))[1:]
    groups = read_groups(path, steps)
    told = (_state(path, logged), describe_groups(groups), describe_changes(groups))
    state = "; ".join(filter(None, told))
    return DrawnRun(name, state, curves, points, missing, source), groups


def read_groups(run: Path, steps: Steps) -> list[RolloutGroup]:
    """Return all groups whose rollouts are saved, in the order of the steps.

    Prompts with a single answer are left out, because there is nothing to rank. A prompt that comes again in a later
    step is another group: `train.one_gpu` gives it the same id again.
    """
    groups: dict[tuple[int, str], RolloutGroup] = {}
    for step, path in step_files(run, "train", steps).items():
        for name, asked, candidates, reward in read_rollouts(path, _read_reward)[0]:
            if candidates > 1:
                groups.setdefault((step, name), RolloutGroup(step, asked, [])).rewards.append(reward)
    return list(groups.values())


def _read_reward(row: Row) -> tuple[str, str, int, float]:
    """Return the prompt's id, its text, its number of candidates, and the rollout's reward."""
    check_fields(row, {"input": str, "score": (int, float)})
    return prompt_of(row), row["input"], len(truth_of(row)["alphas"]), row["score"]


def describe_changes(groups: Iterable[RolloutGroup]) -> str:
    """Describe how repeated prompts changed: their last group minus their first. Empty if no prompt was repeated.

    `64 prompts came again, 18 steps later (median): reward +0.060 [-0.032, +0.149], right rankings +0.037 [...]`, with
    95% bootstrap intervals over prompts. Means of a step cannot show this, because each step has other prompts.
    """
    again = [(of[0], of[-1]) for of in _by_prompt(groups).values() if of[-1].step > of[0].step]
    if not again:
        return ""
    later = median(last.step - first.step for first, last in again)
    changes = [(last.reward - first.reward, last.right - first.right) for first, last in again]
    return f"{len(again)} prompts came again, {later:g} steps later (median): {_differences(changes)}"


def describe_beside(groups: Sequence[RolloutGroup], others: Iterable[RolloutGroup], name: str) -> str:
    """Describe a run minus another one on the prompts that both had, in equal parts of its steps.

    `beside try8, on the same prompts: steps 1-10, 200 of them, reward +0.027 [...], right rankings +0.017 [...]; ...`.
    For each prompt, the other run's value is the mean over all its groups. Each step has other prompts, which can hide
    progress in the curve of the reward. A comparison with a run that learned nothing shows it. The description is empty
    if no prompt is in both runs.
    """
    known = _by_prompt(others)
    shared = [group for group in groups if group.asked in known]
    if not shared:
        return ""
    last = max(group.step for group in shared)
    ends = [last * part // PARTS_OF_STEPS for part in range(PARTS_OF_STEPS + 1)]
    told = []
    for before, end in itertools.pairwise(ends):
        differences = [
            (group.reward - mean(one.reward for one in same), group.right - mean(one.right for one in same))
            for group in shared
            if before < group.step <= end and (same := known[group.asked])
        ]
        if differences:
            told.append(f"steps {before + 1}-{end}, {len(differences)} of them, {_differences(differences)}")
    return f"beside {name}, on the same prompts: {'; '.join(told)}"


def _by_prompt(groups: Iterable[RolloutGroup]) -> dict[str, list[RolloutGroup]]:
    by_prompt: dict[str, list[RolloutGroup]] = defaultdict(list)
    for group in groups:
        by_prompt[group.asked].append(group)
    return by_prompt


def _differences(of: Sequence[tuple[float, float]]) -> str:
    """Describe the mean differences in reward and in right rankings, with their intervals."""
    reward, right = (mean_figure(values, "+.3f") for values in zip(*of, strict=True))
    return f"reward {reward}, right rankings {right}"


def difference(rewards: list[float]) -> str:
    """Return what the rollouts of a group differ in: the first of ranking, format, evidence or nothing that fits.

    The advantage of a rollout is its reward minus the mean of its group, so it is 0 where they differ in nothing.
    """
    if len({reward >= RIGHT for reward in rewards}) > 1:
        return RANKING
    if len({reward == PENALTY for reward in rewards}) > 1:
        return FORMAT
    return EVIDENCE if len(set(rewards)) > 1 else NOTHING


def describe_groups(groups: Iterable[RolloutGroup]) -> str:
    """Describe what rollouts differ in, or return an empty text if there are no groups.

    `rollouts differ in the ranking for 54 of 112 prompts, in the format alone for 4, ...`.
    """
    counts = Counter(difference(group.rewards) for group in groups)
    rest = ", ".join(f"in {kind} for {counts[kind]}" for kind in (FORMAT, EVIDENCE, NOTHING))
    return f"rollouts differ in {RANKING} for {counts[RANKING]} of {counts.total()} prompts, {rest}" if counts else ""


def derived_curves(logged: Curves) -> dict[str, Floats]:
    """Return all curves to draw: the logged ones, format failures, and claims of the answers in between.

    A curve without a number in any step is left out.
    """
    curves = dict(logged)
    if "format" in logged:
        curves["failures"] = 1 - logged["format"]
    if {"claims", "claims_best", "claims_worst", "candidates"} <= logged.keys():
        curves["claims_middle"] = claims_in_between(logged)
    for name in {"evidence", "quote_tokens"} & logged.keys() if "quote_tokens" in logged else ():
        curves[name] = np.where(logged["quote_tokens"] > 0, logged[name], np.nan)  # without a quote there is no value
    return {name: curve for name, curve in curves.items() if not np.isnan(curve).all()}


def claims_in_between(logged: Curves) -> Floats:
    """Return the claims per answer of the candidates that are neither best nor worst, (steps,).

    If every row of a step has K candidates, it is (K claims - best - worst) / (K - 2), where `claims` is the mean over
    all candidates. Rows with fewer candidates than K also contribute their best and worst. NaN where K is at most 2,
    or no whole number: older logs have the mean of the step's rows there.
    """
    k = logged["candidates"]
    between = np.where((k > 2) & (k == np.floor(k)), k - 2, np.nan)
    claims: Floats = (k * logged["claims"] - logged["claims_best"] - logged["claims_worst"]) / between
    return claims


def validation_points(steps: Steps) -> dict[str, Points]:
    """Return `val_reward`, and `val_<part>` for each of PARTS that is measured on the validation rows.

    verl averages over all rows. A row that breaks the format counts as 0 in parts that describe a trajectory. So these
    are divided by the share of rows that keep the format. They are left out where nothing could be measured.
    """

    def measured(part: str) -> Floats:
        return by_step(read_points(steps, VALIDATION.format(part)), max(steps))

    points, kept = {"val_reward": read_points(steps, METRICS["validation"])}, measured("format")
    for part, measured_on in PARTS.items():
        values = measured(part)
        if measured_on:
            there = (kept > 0) & (measured(measured_on) > 0)
            values = np.where(there, values, np.nan) / np.where(there, kept, np.nan)
        known = np.flatnonzero(~np.isnan(values))
        points[f"val_{part}"] = (known.astype(float), values[known])
    return {name: (x, y) for name, (x, y) in points.items() if len(x)}


def _state(path: Path, logged: Curves) -> str:
    """Describe how far a run is, as in `30 steps logged: K=3, K=4 from step 16; finished`."""
    k = logged.get("candidates", np.array([]))
    known = k[~np.isnan(k)]
    later = [f"K={of:g} from step {step}" for step, of in switches(k) if of.is_integer()]
    stages = ", ".join([f"K={known[0]:g}", *later]) if len(known) else "K is not logged"
    ended = "finished" if (path / "manifest.json").is_file() else "not finished: still running, or interrupted"
    attempts = len(attempt_files(path / "metrics"))
    again = f"; {attempts} attempts, a repeated step counts once" if attempts > 1 else ""
    lost = np.nansum(logged.get("lost", np.zeros(1)))
    failing = np.sum(logged.get("errors", np.zeros(1)) > 0)
    trouble = f"; {lost:g} rollouts lost" if lost else ""
    trouble += f"; {failing} steps with reward errors" if failing else ""
    return f"{len(logged['reward'])} steps logged: {stages}; {ended}{again}{trouble}"
