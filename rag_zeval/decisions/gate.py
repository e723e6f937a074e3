"""The rule by which a gate lets a new version (B) pass against a baseline (A), or not.

By each metric there is a check for all cases, one for each slice, and one of B's coverage:

- *failed*: the mean got worse by more than its limit, and that is no chance: p <= ALPHA after Holm's correction over
  the checks of all metrics. So of versions that change nothing at most ALPHA fail, by whatever check.
- *warning*: it got worse by more than the limit, which may be chance; how many cases would tell is said.
- *failed*, of coverage: B has a score for fewer cases than it must, of those that either file has.
- no case has a score on both sides: *failed* over all cases, a *warning* in a slice.

Where A and B were not judged by the same model and prompt, that is a warning of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from rag_zeval.cases.case import ALL
from rag_zeval.decisions.comparison import Comparison, Difference
from rag_zeval.decisions.wording import coverage, other_judge, shown, shown_p
from rag_zeval.errors import InputError
from rag_zeval.statistics.discriminative_power import holm

ALPHA = 0.05
POWER = 0.8  # with which as many cases as a warning asks for would tell
ROUNDING = 1e-9  # means closer than this are the same
COVERAGE = "coverage"

Outcome = Literal["passed", "warning", "failed"]


@dataclass(frozen=True)
class Limits:
    """How much worse the mean over all cases and that of a slice may be, in the metric's units, and B's least coverage.

    Raises InputError for a limit that is negative or no number, and a coverage outside [0, 1].
    """

    max_drop: float = 0.02
    slice_max_drop: float = 0.05
    min_coverage: float = 0.95

    def __post_init__(self) -> None:
        for name in ("max_drop", "slice_max_drop"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}, must be a number, 0 or more")
        if not 0 <= self.min_coverage <= 1:
            raise InputError(f"--min-coverage is {self.min_coverage}, must be from 0 to 1")


@dataclass(frozen=True)
class Check:
    """One check with its outcome and the reason, in words. difference, p_holm: None where it is of no drop."""

    metric: str
    name: str
    outcome: Outcome
    reason: str
    difference: Difference | None = None
    p_holm: float | None = None


def decide(comparisons: Sequence[Comparison], limits: Limits) -> list[Check]:
    """The checks of a gate: B may pass if none has failed."""
    tested = [(one, difference) for one in comparisons for difference in (one.overall, *one.slices)]
    adjusted = iter(holm([difference.p for _, difference in tested]))
    checks = []
    for one in comparisons:
        checks.append(_coverage(one, limits.min_coverage))
        if said := other_judge(one):
            checks.append(Check(one.metric, "judge", "warning", said))
        for difference in (one.overall, *one.slices):
            limit = limits.max_drop if difference is one.overall else limits.slice_max_drop
            checks.append(_drop(one, difference, limit, next(adjusted), len(tested)))
    return checks


def passed(checks: Sequence[Check]) -> bool:
    return all(check.outcome != "failed" for check in checks)


def _coverage(comparison: Comparison, least: float) -> Check:
    outcome: Outcome = "failed" if comparison.second.share < least - ROUNDING else "passed"
    reason = f"{coverage('B', comparison.second)}, must be {least:.1%}"
    return Check(comparison.metric, COVERAGE, outcome, reason)


def _drop(comparison: Comparison, difference: Difference, limit: float, p: float, tests: int) -> Check:
    overall = difference is comparison.overall
    name = ALL if overall else f"slice: {difference.slice_tag}"
    outcome: Outcome
    if difference.change is None:
        outcome = "failed" if overall else "warning"
        return Check(comparison.metric, name, outcome, "no case has a score on both sides", difference, p)
    worse = difference.change.value if comparison.lower_is_better else -difference.change.value
    seen = f"B - A is {shown(difference.change, '+.3f')}, n = {difference.n}, p {shown_p(p)}"
    if worse <= limit + ROUNDING:
        outcome, reason = "passed", f"not worse by more than {limit:g}: {seen}"
    elif p <= ALPHA:
        outcome, reason = "failed", f"worse by more than {limit:g}, and this is not noise: {seen}"
    else:
        outcome, reason = "warning", f"worse by more than {limit:g}, which could be noise: {seen}"
        if difference.sd is not None:
            needed = cases_needed(difference.sd, worse, ALPHA / tests)
            reason += f"; about {needed} cases would tell a drop of {worse:.3f} from noise"
    return Check(comparison.metric, name, outcome, reason, difference, p)


def cases_needed(sd: float, drop: float, alpha: float) -> int:
    """How many cases show a true mean drop with probability POWER in a two-sided randomisation test at level alpha.

    sd: of the paired differences. Without a true drop random signs spread them by s = sqrt(sd² + drop²), so it is
    ((z(1 - alpha/2) * s + z(POWER) * sd) / drop)² (Lachin 1981, Introduction to sample size determination and power
    analysis for clinical trials, Controlled Clinical Trials 2, 93-113), and at least what lets p = 2 / 2ⁿ reach alpha.
    """
    z = NormalDist().inv_cdf
    by_spread = ((z(1 - alpha / 2) * math.hypot(sd, drop) + z(POWER) * sd) / drop) ** 2
    return math.ceil(max(by_spread, 1 - math.log2(alpha)))
