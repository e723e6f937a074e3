"""The rule by which a gate lets a new version (B) pass against a baseline (A), or not.

By each metric there is a check for all cases, one for each slice, and one of B's coverage:

- *failed*: the mean got worse by more than its limit, and that is no chance: p <= ALPHA after Holm's correction over
  the checks of all metrics. So of versions that change nothing at most ALPHA fail, by whatever check.
- *warning*: it got worse by more than the limit, which may be chance; how many cases would tell is said.
- *failed*, of coverage: B has a score for fewer cases than it must, of those that either file has.
- no case has a score on both sides: *failed* over all cases, a *warning* in a slice.

Where A and B were not judged by the same model and prompt, that is a warning of its own.

What a gate leaves for others to read is JUnit XML for a build server, and Markdown for a pull request.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Literal

from rag_zeval.cases.case import ALL
from rag_zeval.decisions.comparison import Comparison, Difference
from rag_zeval.decisions.wording import ALPHA, DASH, coverage, edits, other_judge, print_line, shown, shown_p
from rag_zeval.errors import InputError
from rag_zeval.files import write_text
from rag_zeval.statistics.discriminative_power import holm
from rag_zeval.text import one_line

POWER = 0.8  # with which as many cases as a warning asks for would tell
ROUNDING = 1e-9  # means closer than this are the same
COVERAGE = "coverage"
SUITE = "rag-zeval gate"
XML = "<?xml version='1.0' encoding='utf-8'?>"

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
class GateCheck:
    """One check with its outcome and the reason, in words. difference, p_holm: None where it is of no drop."""

    metric: str
    name: str
    outcome: Outcome
    reason: str
    difference: Difference | None = None
    p_holm: float | None = None


def decide(comparisons: Sequence[Comparison], limits: Limits) -> list[GateCheck]:
    """The checks of a gate: B may pass if none has failed."""
    tested = [(one, difference) for one in comparisons for difference in _tested(one)]
    adjusted = iter(holm([difference.p for _, difference in tested]))
    checks = []
    if said := edits(comparisons[0].edited):
        checks.append(GateCheck("every metric", "question set", "warning", said))
    for one in comparisons:
        outcome: Outcome = "failed" if one.second.share < limits.min_coverage - ROUNDING else "passed"
        reason = f"{coverage('B', one.second)}, must be {limits.min_coverage:.1%}"
        checks.append(GateCheck(one.metric, COVERAGE, outcome, reason))
        if said := other_judge(one):
            checks.append(GateCheck(one.metric, "judge", "warning", said))
        for difference in _tested(one):
            limit = limits.max_drop if difference.slice_tag == ALL else limits.slice_max_drop
            checks.append(_drop(one, difference, limit, next(adjusted), len(tested)))
    return checks


def _tested(comparison: Comparison) -> tuple[Difference, ...]:
    """What is decided on: all cases and the slices, by the corrected scores where there are labels."""
    return comparison.corrected or (comparison.overall, *comparison.slices)


def passed(checks: Sequence[GateCheck]) -> bool:
    return all(check.outcome != "failed" for check in checks)


def _drop(comparison: Comparison, difference: Difference, limit: float, p: float, tests: int) -> GateCheck:
    overall = difference.slice_tag == ALL
    name = ALL if overall else f"slice: {difference.slice_tag}"
    outcome: Outcome
    if difference.change is None:
        outcome = "failed" if overall else "warning"
        reason = "no case has a score on both sides" if difference.labels is None else "too few labels on a side"
        return GateCheck(comparison.metric, name, outcome, reason, difference, p)
    worse = difference.change.value if comparison.lower_is_better else -difference.change.value
    counted = f"n = {difference.n}" if difference.labels is None else f"corrected by {difference.labels} labels"
    seen = f"B - A is {shown(difference.change, '+.3f')}, {counted}, p {shown_p(p)}"
    if worse <= limit + ROUNDING:
        outcome, reason = "passed", f"not worse by more than {limit:g}: {seen}"
    elif p <= ALPHA:
        outcome, reason = "failed", f"worse by more than {limit:g}, and this is not noise: {seen}"
    else:
        outcome, reason = "warning", f"worse by more than {limit:g}, which could be noise: {seen}"
        if difference.sd is not None:
            needed = cases_needed(difference.sd, worse, ALPHA / tests)
            reason += f"; about {needed} cases would tell a drop of {worse:.3f} from noise"
    return GateCheck(comparison.metric, name, outcome, reason, difference, p)


def cases_needed(sd: float, drop: float, alpha: float) -> int:
    """How many cases show a true mean drop with probability POWER in a two-sided randomisation test at level alpha.

    sd: of the paired differences. Without a true drop random signs spread them by s = sqrt(sd² + drop²), so it is
    ((z(1 - alpha/2) * s + z(POWER) * sd) / drop)² (Lachin 1981, Introduction to sample size determination and power
    analysis for clinical trials, Controlled Clinical Trials 2, 93-113), and at least what lets p = 2 / 2ⁿ reach alpha.
    """
    z = NormalDist().inv_cdf
    by_spread = ((z(1 - alpha / 2) * math.hypot(sd, drop) + z(POWER) * sd) / drop) ** 2
    return math.ceil(max(by_spread, 1 - math.log2(alpha)))


def print_checks(checks: Sequence[GateCheck]) -> None:
    """A line for each check, and the verdict."""
    for check in checks:
        print_line(f"{check.outcome:<7}  {one_line(check.metric)}, {one_line(check.name)}: {check.reason}")
    counts = Counter(check.outcome for check in checks)
    verdict = "passed" if passed(checks) else "failed"
    print_line(f"gate {verdict}: {counts['failed']} of {len(checks)} checks failed, {counts['warning']} warnings")


def write_junit(path: Path, checks: Sequence[GateCheck]) -> None:
    """Write the checks as JUnit XML, in the elements that GitHub's actions, GitLab and Jenkins read.

    Each is a test case: its class the metric, its name what was checked, its output the reason. A warning passes.
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
            failure.text = check.reason  # some readers show the text alone
        ElementTree.SubElement(case, "system-out").text = f"{check.outcome}: {check.reason}"
    ElementTree.indent(root)
    write_text(path, f"{XML}\n{ElementTree.tostring(root, encoding='unicode')}\n")


def write_summary(path: Path, names: Sequence[str], checks: Sequence[GateCheck]) -> None:
    """Write the checks as Markdown: the verdict, a table, and the reason of each check that did not pass."""
    lines = [f"### {SUITE}: {'passed' if passed(checks) else 'failed'}", ""]
    lines += [f"{letter}: {_plain(name)}  " for letter, name in zip("AB", names, strict=True)]
    lines += ["", "| metric | check | outcome | n | A | B | B - A | p (Holm) |", "|---|---|---|---:|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(check))} |" for check in checks]
    told = [
        f"- **{check.outcome}** {_plain(check.metric)}, {_plain(check.name)}: {_plain(check.reason)}"
        for check in checks
        if check.outcome != "passed"
    ]
    lines += ["", *told, "", "In brackets: 95% bootstrap intervals over cases."]
    write_text(path, "\n".join(lines) + "\n")


def _cells(check: GateCheck) -> list[str]:
    found = check.difference
    numbers = [DASH] * 5
    if found is not None:
        means = [shown(found.first), shown(found.second), shown(found.change, "+.3f")]
        numbers = [str(found.n), *means, shown_p(check.p_holm)]
    return [_plain(check.metric), _plain(check.name), check.outcome, *numbers]


def _plain(text: str) -> str:
    """Foreign text as Markdown that shows it letter by letter.

    A space of no width, as Renovate sets it, keeps GitHub from calling people (@name) and linking issues (#1, a URL).
    """
    plain = re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", one_line(text))
    return re.sub(r"@|#|:(?=//)", r"\g<0>&#8203;", plain)
