"""Decides whether a new version (B) passes a gate: against a baseline (A), or against bars.

For each metric there is one check of all cases, one of each slice, and one of B's coverage:

- *failed*: B got worse by more than the limit, and this is not noise: p <= ALPHA after Holm's correction over the
  checks of all metrics. So a version that changes nothing fails with probability ALPHA at most.
- *warning*: B got worse by more than the limit, and this is hardly noise: a more powerful test (see `_evidence`) has
  p <= ALPHA, also after Holm's correction. So even if warnings count as failures (`strictly`), a version that changes
  nothing fails with probability ALPHA at most, unless a small slice has much more noise than the others
  (`standing_out_p`).
- *unclear*: B got worse by more than the limit, but this could be noise. For a mean, the reason says how many cases
  would tell.
- *failed*, for coverage: the share of cases with a score is too low. It counts the cases that either file has,
  without questions that have no ground truth (`with_truth`). In a slice, a share that is too low is *unclear* if it
  could be chance: see `_slice_coverage`.
- If no case has a score on both sides, the check of all cases has *failed*, and that of a slice is a *warning*.

A bar sets a limit for a value of B alone. The check has *failed* if B does not reach the bar. It is a *warning* if B's
interval goes beyond the bar, or if a single case gives no interval.

Edited cases give a warning of their own. So do a judge with another model or prompt, a baseline with too few scores,
so few cases that no drop can fail, and items that no label stands for.

A gate can also write its checks as JUnit XML for a build server, and as Markdown for a pull request.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Literal, get_args

from rag_zeval.cases.case import ALL
from rag_zeval.decisions.amounts import AMOUNTS
from rag_zeval.decisions.comparison import Comparison, Coverage, Difference, estimate, with_truth
from rag_zeval.decisions.sides import Side
from rag_zeval.decisions.wording import (
    ALPHA,
    DASH,
    coverage,
    edits,
    other_judge,
    print_line,
    shown,
    shown_p,
    truthless,
)
from rag_zeval.errors import InputError
from rag_zeval.files import write_text
from rag_zeval.statistics.bootstrap import BootstrapEstimate, low_share_p
from rag_zeval.statistics.discriminative_power import holm
from rag_zeval.statuses import status_kinds
from rag_zeval.text import counted, decimals_beside, in_markdown, one_line

POWER = 0.8  # chance that the number of cases that an unclear check names shows the drop
FEWEST = math.ceil(1 - math.log2(ALPHA))  # cases: with fewer, the smallest possible p, 2 / 2ⁿ, is above ALPHA
ROUNDING = 1e-9  # means closer than this are the same
COVERAGE, LABELS = "coverage", "labels"
SUITE = "rag-zeval gate"
XML = "<?xml version='1.0' encoding='utf-8'?>"

Outcome = Literal["failed", "warning", "unclear", "passed"]


@dataclass(frozen=True)
class Limits:
    """How much worse a metric may get over all cases and in a slice, and the lowest coverage that B may have.

    Limits are in the metric's units. For seconds and dollars, they are a share of A's value. drops, slice_drops: limits
    by metric, which replace the general ones. Raises InputError for a limit that is negative or not a finite number,
    and for a coverage outside [0, 1].
    """

    max_drop: float = 0.02
    slice_max_drop: float = 0.05
    min_coverage: float = 0.95
    drops: Mapping[str, float] = field(default_factory=dict)
    slice_drops: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, limit, more in (
            ("--max-drop", self.max_drop, self.drops), ("--slice-max-drop", self.slice_max_drop, self.slice_drops),
        ):  # fmt: skip
            for value in (limit, *more.values()):
                if not 0 <= value < math.inf:
                    raise InputError(f"{name} is {value}, must be a number, 0 or more")
        if not 0 <= self.min_coverage <= 1:
            raise InputError(f"--min-coverage is {self.min_coverage}, must be from 0 to 1")


@dataclass(frozen=True)
class Bar:
    """The lowest value that a metric of B may have if `least`, else the highest."""

    metric: str
    value: float
    least: bool


@dataclass(frozen=True)
class GateCheck:
    """One check with its outcome, and the reason in words.

    difference: the numbers of a drop, or B's value for a bar; else None. p_holm: None unless the check is of a drop.
    fall: how much worse B got, as a share of A's value, or in the metric's units if that is 0. Infinite if unknown.
    """

    metric: str
    name: str
    outcome: Outcome
    reason: str
    difference: Difference | None = None
    p_holm: float | None = None
    fall: float = math.inf


def read_limits(drops: Sequence[str], slice_drops: Sequence[str], min_coverage: float) -> Limits:
    """Read limits from the values of --max-drop and --slice-max-drop, each like `0.02` or `recall@5=0.02`.

    Raises InputError for any other value.
    """
    (alone, drops_of), (in_slices, slice_drops_of) = (
        _numbers(option, words) for option, words in (("--max-drop", drops), ("--slice-max-drop", slice_drops))
    )
    return Limits(
        [Limits.max_drop, *alone][-1], [Limits.slice_max_drop, *in_slices][-1], min_coverage, drops_of, slice_drops_of
    )


def read_bars(least: Sequence[str], most: Sequence[str]) -> list[Bar]:
    """Read bars from the values of --min and --max, each like `recall@5=0.9`.

    Raises InputError for any other value.
    """
    bars = []
    for option, words in (("--min", least), ("--max", most)):
        alone, by_metric = _numbers(option, words)
        for value in alone:
            raise InputError(f"{option} is {value:g}, must be METRIC=NUMBER")
        bars += [Bar(metric, value, option == "--min") for metric, value in by_metric.items()]
    return bars


def _numbers(option: str, words: Sequence[str]) -> tuple[list[float], dict[str, float]]:
    """Return the plain numbers, and those of METRIC=NUMBER by metric.

    Raises InputError, naming the option, for any other word, for NaN and infinities, and for two different numbers of
    one metric or of none.
    """
    alone: list[float] = []
    by_metric: dict[str, float] = {}
    for word in words:
        metric, sign, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError as error:
            raise InputError(f"{option} is {word!r}, must be a number or METRIC=NUMBER") from error
        if not math.isfinite(value):
            raise InputError(f"{option} is {word}, must be a finite number")
        if not sign:
            alone.append(value)
        elif by_metric.setdefault(metric, value) != value:
            raise InputError(f"{option} has two numbers for {metric}: remove one")
    if len(set(alone)) > 1:
        raise InputError(f"{option} has two numbers without a metric, {alone[0]:g} and {alone[1]:g}: remove one")
    return alone, by_metric


def decide(comparisons: Sequence[Comparison], limits: Limits) -> list[GateCheck]:
    """Return the checks of a gate. B passes if none of them has failed.

    Raises InputError if there is a limit for a metric that is not compared: it would check nothing.
    """
    compared = [one.metric for one in comparisons]
    for option, limited in (("--max-drop", limits.drops), ("--slice-max-drop", limits.slice_drops)):
        for metric in limited:
            if metric not in compared:
                there = one_line(", ".join(compared))
                raise InputError(f"{option}: {metric} is not compared: name it with --metric, or one of: {there}")
    tested = [(one, difference) for one in comparisons for difference in _tested(one)]
    adjusted = iter(holm([difference.p for _, difference in tested]))
    evidence = iter(holm([_evidence(*one) for one in tested]))
    tests = sum(difference.p is not None for _, difference in tested)
    checks = []
    if said := edits(comparisons[0].edited):
        checks.append(GateCheck("every metric", "question set", "warning", said))
    for one in comparisons:
        checks.append(_coverage(one.metric, one.second, one.without_truth, limits))
        if one.first.share < limits.min_coverage - ROUNDING:
            said = f"{coverage('A', one.first)}: B is compared with only these"
            checks.append(GateCheck(one.metric, "coverage of A", "warning", said))
        checks += _slice_coverage(one, limits)
        checks += [GateCheck(one.metric, LABELS, "warning", said) for said in one.unlabelled]
        if said := other_judge(one):
            checks.append(GateCheck(one.metric, "judge", "warning", said))
        if one.overall.n and one.overall.n < FEWEST and not one.corrected:
            said = f"{counted(one.overall.n, 'case')} with a score on both sides: fewer than {FEWEST} never show a drop"
            checks.append(GateCheck(one.metric, "number of cases", "warning", said))
        for at, difference in enumerate(_tested(one)):  # the first is of all cases; a slice may have the same name
            checks.append(_drop(one, difference, at == 0, limits, next(adjusted), next(evidence), tests))
    return checks


def bar_checks(
    side: Side,
    bars: Sequence[Bar],
    corrected: Mapping[str, tuple[BootstrapEstimate, int, str | None]],
    limits: Limits,
    alone: bool,
) -> list[GateCheck]:
    """Return a check for each bar, over all cases that the side has a score for.

    corrected: means that are corrected by human labels, by metric (see `corrected_means`). alone: whether no other side
    is compared. If so, coverage and labels are checked here.
    """
    checks = []
    for bar in bars:
        [judged], without_truth = with_truth([side.judged[bar.metric]])
        scores = [one.score for one in judged.values() if one.score is not None]
        if alone:
            checks.append(_coverage(bar.metric, Coverage.of(judged, judged), without_truth, limits))
        name = f"{'at least' if bar.least else 'at most'} {bar.value:g}"
        if not scores:
            checks.append(GateCheck(bar.metric, name, "failed", "no case has a score"))
            continue
        found, labels, missing = corrected.get(bar.metric) or (estimate(scores, bar.metric), None, None)
        if alone and missing:
            checks.append(GateCheck(bar.metric, LABELS, "warning", f"labels of B: {missing}"))
        sign = 1 if bar.least else -1
        outcome: Outcome = "failed" if sign * (bar.value - found.value) > ROUNDING else "passed"
        end = found.low if bar.least else found.high
        decimals = max(decimals_beside(one, bar.value) for one in (found.value, end) if one is not None)
        of = f"n = {len(scores)}" if labels is None else f"corrected by {labels} labels"
        said = f"{shown(found, f'.{decimals}f')}, {of}"
        if outcome == "passed" and end is None:
            outcome, said = "warning", f"{said}: a single case has no interval"
        elif outcome == "passed" and end is not None and sign * (bar.value - end) > ROUNDING:
            outcome, said = "warning", f"{said}: the interval goes beyond the bar"
        of_b = Difference(ALL, labels or len(scores), None, found, None, None, None, labels=labels)
        checks.append(GateCheck(bar.metric, name, outcome, said, of_b))
    return list(dict.fromkeys(checks))  # two bars of a metric have the same checks of coverage and labels


def strictly(checks: Sequence[GateCheck]) -> list[GateCheck]:
    """Return the checks with each warning turned into a failure."""
    return [
        replace(one, outcome="failed", reason=f"a warning, and --strict is on: {one.reason}")
        if one.outcome == "warning"
        else one
        for one in checks
    ]


def in_order(checks: Sequence[GateCheck]) -> list[GateCheck]:
    """Sort the checks by outcome, failures first.

    Within an outcome the largest fall comes first, whatever the size of the slice. Passed checks keep their order.
    """
    ranks = {outcome: rank for rank, outcome in enumerate(get_args(Outcome))}
    return sorted(checks, key=lambda one: (ranks[one.outcome], -one.fall if one.outcome != "passed" else 0.0))


def _coverage(metric: str, of: Coverage, without_truth: int, limits: Limits) -> GateCheck:
    outcome: Outcome = "failed" if of.share < limits.min_coverage - ROUNDING else "passed"
    said = _required(of, limits.min_coverage)
    if outcome == "failed" and (kinds := status_kinds(of.missing)):
        reason = one_line(kinds[0].first.removeprefix("failed: "))
        said += f"; most frequent reason: {reason} ({counted(kinds[0].total, 'case')})"
    if without_truth:
        said += f"; left out: {truthless(without_truth)}"
    return GateCheck(metric, COVERAGE, outcome, said)


def _required(of: Coverage, least: float) -> str:
    decimals = max(decimals_beside(100 * share, 100 * least, 1) for share in (of.share, least))
    return f"{coverage('B', of, decimals)}, must be at least {least:.{decimals}%}"


def _slice_coverage(comparison: Comparison, limits: Limits) -> list[GateCheck]:
    """Return a check for each slice in which B's coverage is below the limit.

    It has *failed* if this is not chance: p <= ALPHA after Holm's correction over the slices. p is that of the exact
    binomial test: the probability of so few scores if each case has one with the probability of the limit. A single
    missing score of a small slice is therefore *unclear*.
    """
    slices = comparison.slice_coverage
    if all(of.share >= limits.min_coverage - ROUNDING for of in slices.values()):
        return []
    p_values = holm([low_share_p(of.scored, of.cases, limits.min_coverage) for of in slices.values()])
    checks = []
    for (tag, of), p in zip(slices.items(), p_values, strict=True):
        if of.share < limits.min_coverage - ROUNDING:
            outcome: Outcome = "failed" if p <= ALPHA else "unclear"
            said = _required(of, limits.min_coverage)
            said += ", and this is not chance" if p <= ALPHA else ", which could be chance"
            checks.append(
                GateCheck(comparison.metric, f"{COVERAGE} of slice: {tag}", outcome, f"{said}: p {shown_p(p)}")
            )
    return checks


def _evidence(comparison: Comparison, difference: Difference) -> float | None:
    """Return a one-sided p-value that B got worse; 1 if it did not, and None if there is no test.

    It is half of the p-value of the randomisation test, which turns the signs of the changes. This test is weak in a
    small slice: 4 of 12 cases that fall from 1 to 0 give p = 0.06, even if no case of another slice changes. So a slice
    is also compared with random choices of as many cases from all (`standing_out_p`). Twice the smaller of the two
    p-values counts then (Bonferroni).
    """
    if difference.change is None or difference.p is None:
        return None
    if _worse(comparison, difference.change.value) <= 0:
        return 1.0
    by_signs = difference.p / 2
    return by_signs if difference.p_apart is None else min(1.0, 2 * min(by_signs, difference.p_apart))


def _worse(comparison: Comparison, change: float) -> float:
    return change if comparison.lower_is_better else -change


def _tested(comparison: Comparison) -> tuple[Difference, ...]:
    """Return the differences to decide on: all cases and the slices, by corrected scores if there are labels."""
    return comparison.corrected or (comparison.overall, *comparison.slices)


def passed(checks: Sequence[GateCheck]) -> bool:
    return all(check.outcome != "failed" for check in checks)


def _drop(
    comparison: Comparison,
    difference: Difference,
    overall: bool,
    limits: Limits,
    p: float | None,
    evidence: float | None,
    tests: int,
) -> GateCheck:
    """Check one difference against its limit.

    overall: whether it is of all cases, not of a slice. p, evidence: p-values after Holm's correction over all `tests`;
    None if there is no test.
    """
    name = ALL if overall else f"slice: {difference.slice_tag}"
    outcome: Outcome
    if difference.change is None or difference.first is None or p is None or evidence is None:
        outcome = "failed" if overall else "warning"
        reason = "no case has a score on both sides" if difference.labels is None else "too few labels on a side"
        return GateCheck(comparison.metric, name, outcome, reason, difference, p)
    worse, before = _worse(comparison, difference.change.value), abs(difference.first.value)
    limit, single = (limits.max_drop, limits.drops) if overall else (limits.slice_max_drop, limits.slice_drops)
    limit = single.get(comparison.metric, limit) * (before if comparison.metric in AMOUNTS else 1)
    of = f"n = {difference.n}" if difference.labels is None else f"corrected by {difference.labels} labels"
    decimals = decimals_beside(worse, limit)
    seen = f"B - A is {shown(difference.change, f'+.{decimals}f')}, {of}"
    if worse <= limit + ROUNDING:
        outcome, reason = "passed", f"not worse by more than {limit:g}: {seen}, p {shown_p(p)}"
    elif p <= ALPHA:
        outcome, reason = "failed", f"worse by more than {limit:g}, and this is not noise: {seen}, p {shown_p(p)}"
    elif evidence <= ALPHA:
        rest = "" if difference.p_apart is None else ", compared with the other cases"
        said = f"and this is hardly noise{rest}: {seen}, one-sided p {shown_p(evidence)}"
        outcome, reason = "warning", f"worse by more than {limit:g}, {said}"
    else:
        outcome, reason = "unclear", f"worse by more than {limit:g}, which could be noise: {seen}, p {shown_p(p)}"
        if difference.sd is not None:
            needed = cases_needed(difference.sd, worse, ALPHA / tests)
            reason += f"; about {needed} cases would tell a change of {worse:.{decimals}f} from noise"
    return GateCheck(comparison.metric, name, outcome, reason, difference, p, worse / (before or 1.0))


def cases_needed(sd: float, drop: float, alpha: float) -> int:
    """Return how many cases show a true mean drop with probability POWER.

    The test is the two-sided randomisation test at level alpha. sd: standard deviation of the paired differences. With
    random signs their spread is s = sqrt(sd² + drop²). So the number is
    ((z(1 - alpha/2) * s + z(POWER) * sd) / drop)² (Lachin 1981, Introduction to sample size determination and power
    analysis for clinical trials, Controlled Clinical Trials 2, 93-113). It is at least the n for which the smallest
    possible p, 2 / 2ⁿ, reaches alpha.
    """
    z = NormalDist().inv_cdf
    by_spread = ((z(1 - alpha / 2) * math.hypot(sd, drop) + z(POWER) * sd) / drop) ** 2
    return math.ceil(max(by_spread, 1 - math.log2(alpha)))


def print_checks(checks: Sequence[GateCheck]) -> None:
    """Print a line for each check, and whether the gate passed."""
    for check in checks:
        print_line(f"{check.outcome:<7}  {one_line(check.metric)}, {one_line(check.name)}: {check.reason}")
    counts = Counter(check.outcome for check in checks)
    verdict = "passed" if passed(checks) else "failed"
    said = f"{counts['failed']} of {counted(len(checks), 'check')} failed, {counted(counts['warning'], 'warning')}"
    print_line(f"gate {verdict}: {said}" + (f", {counts['unclear']} unclear" if counts["unclear"] else ""))


def write_junit(path: Path, checks: Sequence[GateCheck]) -> None:
    """Write the checks as JUnit XML, with the elements that GitHub's actions, GitLab and Jenkins read.

    Each check is a test case. Its class is the metric, its name says what was checked, and its output is the outcome
    with the reason. Only checks that failed are failures.
    """
    from xml.etree import ElementTree

    totals = {"tests": str(len(checks)), "failures": str(sum(one.outcome == "failed" for one in checks)), "errors": "0"}
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **totals, "skipped": "0"})
    for check in checks:
        names = {"classname": one_line(check.metric), "name": one_line(check.name)}
        case = ElementTree.SubElement(suite, "testcase", {**names, "time": "0"})
        if check.outcome == "failed":
            failure = ElementTree.SubElement(case, "failure", {"message": check.reason, "type": "failed"})
            failure.text = check.reason  # some readers show only the text
        ElementTree.SubElement(case, "system-out").text = f"{check.outcome}: {check.reason}"
    ElementTree.indent(root)
    write_text(path, f"{XML}\n{ElementTree.tostring(root, encoding='unicode')}\n")


def write_summary(path: Path, names: Mapping[str, str], checks: Sequence[GateCheck]) -> None:
    """Write the checks as Markdown: whether the gate passed, a table, and the reason of each check that did not pass.

    names: the name of each file, by its letter.
    """
    lines = [f"### {SUITE}: {'passed' if passed(checks) else 'failed'}", ""]
    lines += [f"{letter}: {in_markdown(name)}  " for letter, name in names.items()]
    lines += ["", "| metric | check | outcome | n | A | B | B - A | p (Holm) |", "|---|---|---|---:|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(check))} |" for check in checks]
    told = [
        f"- **{check.outcome}** {in_markdown(check.metric)}, {in_markdown(check.name)}: {in_markdown(check.reason)}"
        for check in checks
        if check.outcome != "passed"
    ]
    lines += [
        "",
        *told,
        "",
        "In brackets: 95% intervals over cases, by bootstrap, or Wilson's for a mean of scores that are all 0 or 1.",
    ]
    if any(check.difference and check.difference.labels is not None for check in checks):
        lines.append("Where n counts labels, means are what people would give, estimated from them, with t intervals.")
    write_text(path, "\n".join(lines) + "\n")


def _cells(check: GateCheck) -> list[str]:
    found = check.difference
    numbers = [DASH] * 5
    if found is not None:
        means = [shown(found.first), shown(found.second), shown(found.change, "+.3f")]
        count = str(found.n) if found.labels is None else f"{found.n} labels"
        numbers = [count, *means, shown_p(check.p_holm)]
    return [in_markdown(check.metric), in_markdown(check.name), check.outcome, *numbers]
