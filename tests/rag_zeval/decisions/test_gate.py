"""When the gate lets a version pass: alarms by chance are counted, damage is planted."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_zeval.decisions.comparison import compare_sides
from rag_zeval.decisions.gate import (
    POWER,
    Limits,
    cases_needed,
    decide,
    passed,
    write_junit,
    write_summary,
)
from rag_zeval.decisions.wording import ALPHA
from rag_zeval.statistics.discriminative_power import randomisation_p

SLICES = ("billing", "login", "search", "api")
STRICT = Limits(max_drop=0.0, slice_max_drop=0.0)
HOSTILE = "<b>&]]> | `x` [y](z) \x1b[31m\x00 {{ 7 }} @all #1 http://x"


def scores(random: np.random.Generator, n: int, held: float = 0.7, claims: int = 6) -> dict[str, float]:
    found = random.binomial(claims, held, n) / claims
    return {f"{SLICES[at % len(SLICES)]}:{at}": float(score) for at, score in enumerate(found)}


def test_of_a_thousand_versions_that_changed_nothing_at_most_seventy_fail(side: Any) -> None:
    """At .05, 70 of 1,000 is beyond 99.7% of what chance does; the strictest limits let no alarm hide behind them."""
    random = np.random.default_rng(0)
    alarms = uncorrected = 0
    for _ in range(1000):
        found = compare_sides(side(scores(random, 120)), side(scores(random, 120)), "m", draws=200)
        alarms += not passed(decide([found], STRICT))
        checks = (found.overall, *found.slices)
        uncorrected += any(one.p <= ALPHA and one.change is not None and one.change.value < 0 for one in checks)
    assert 0 < alarms <= 70 < uncorrected  # which is what Holm's correction is for


def outcomes(before: Any, after: Any, limits: Limits = Limits()) -> dict[str, str]:  # noqa: B008 (frozen)
    return {check.name: check.outcome for check in decide([compare_sides(before, after, "m", draws=100)], limits)}


def cut(before: dict[str, float]) -> dict[str, float]:
    """Scores with a slice that is worse."""
    return {case: max(0.0, score - 0.3) if case.startswith("login") else score for case, score in before.items()}


def test_a_drop_fails_if_it_is_over_the_limit_and_no_chance(side: Any) -> None:
    scored = scores(np.random.default_rng(3), 400)
    before, after = side(scored), side(cut(scored))
    slices = {f"slice: {tag}": "failed" if tag == "login" else "passed" for tag in SLICES}
    assert outcomes(before, after) == {"coverage": "passed", "all": "failed", **slices}
    assert "failed" not in outcomes(before, after, Limits(max_drop=0.2, slice_max_drop=0.4)).values()
    assert set(outcomes(after, before, STRICT).values()) == {"passed"}


def test_the_limit_itself_is_allowed_and_more_of_a_metric_of_faults_fails(side: Any) -> None:
    metric = "ragchecker_hallucination"
    few, many = (side({str(at): value for at in range(50)}, metric) for value in (0.1, 0.3))
    worse, better = compare_sides(few, many, metric), compare_sides(many, few, metric)
    assert passed(decide([worse], Limits(max_drop=0.2))) and not passed(decide([worse], Limits(max_drop=0.199)))
    assert passed(decide([better], STRICT))


def test_a_drop_that_may_be_chance_is_a_warning_with_the_cases_that_would_tell(side: Any) -> None:
    found = compare_sides(side({"1": 1.0, "2": 0.5, "3": 1.0}), side({"1": 0.5, "2": 0.5, "3": 0.75}), "m")
    [coverage, overall] = decide([found], Limits())
    assert (coverage.outcome, overall.outcome) == ("passed", "warning")
    needed = cases_needed(found.overall.sd or 0.0, 0.25, ALPHA)
    assert f"about {needed} cases" in overall.reason and needed > 3


@pytest.mark.parametrize(("shift", "alpha"), [(0.1, 0.05), (0.05, 0.01), (1.0, 0.01)])
def test_as_many_cases_as_are_asked_for_tell_with_the_power_that_is_said(shift: float, alpha: float) -> None:
    random = np.random.default_rng(5)
    n = cases_needed(0.4, shift, alpha)
    told = sum(randomisation_p(random.normal(-shift, 0.4, n), 2000, seed) <= alpha for seed in range(300))
    assert told / 300 > POWER - 0.08  # three standard deviations are 0.07
    assert told / 300 < POWER + 0.08 or n < 20  # few cases: a step of p is large


def test_missing_scores_fail_by_coverage_and_never_as_scores_of_zero(side: Any) -> None:
    scored = {str(at): 1.0 for at in range(100)}
    before, few = side(scored), side({case: (None if int(case) < 5 else 1.0) for case in scored})
    assert outcomes(before, few) == {"coverage": "passed", "all": "passed"}  # 95 of 100, change 0
    assert outcomes(before, few, Limits(min_coverage=0.951))["coverage"] == "failed"
    left_out = side({case: score for case, score in scored.items() if int(case) >= 6})
    assert outcomes(before, left_out)["coverage"] == "failed"  # a case that B lacks is no score either
    assert outcomes(before, side(dict.fromkeys(scored)), Limits(min_coverage=0))["all"] == "failed"


def test_however_many_slices_there_are_a_clear_drop_fails(side: Any) -> None:
    """With 1,000 random signs alone no p could be below what Holm asks of 121 checks."""
    before = {f"{at % 120}:{at}": 1.0 for at in range(360)}
    assert outcomes(side(before), side(dict.fromkeys(before, 0.5)))["all"] == "failed"


def test_the_command_says_its_verdict_in_its_exit_status_and_in_files(
    run: Any, write_results: Any, tmp_path: Path
) -> None:
    before = scores(np.random.default_rng(3), 1000)
    write_results("a.jsonl", before)
    write_results("same.jsonl", before, answers=["The same in other words."])
    write_results("cut.jsonl", cut(before))
    good = run("gate", "a.jsonl", "same.jsonl", "--junit", "good.xml")
    assert good.returncode == 0, good.stderr
    assert "gate passed: 0 of 6 checks failed, 0 warnings" in good.stdout
    bad = run("gate", "a.jsonl", "cut.jsonl", "--junit", "bad.xml", "--summary", "bad.md")
    assert bad.returncode == 1 and not bad.stderr
    assert "gate failed: 2 of 6" in bad.stdout and "failed   m, slice: login: worse by more than 0.05" in bad.stdout
    failures = {name: suite.get("failures") for name in ("good", "bad") for suite in junit(tmp_path / f"{name}.xml")}
    assert failures == {"good": "0", "bad": "2"}
    summary = (tmp_path / "bad.md").read_text()
    assert summary.startswith("### rag-zeval gate: failed") and "- **failed** m, slice: login: worse" in summary


def junit(path: Path) -> ElementTree.Element:
    """The test suites; what readers of JUnit XML rely on is asserted of them."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name")
        cases = list(suite)
        assert {case.tag for case in cases} == {"testcase"}
        assert int(suite.get("tests", -1)) == len(cases) and suite.get("errors") == "0"
        assert int(suite.get("failures", -1)) == len(suite.findall("testcase/failure"))
        names = [(case.get("classname"), case.get("name")) for case in cases]
        assert len(set(names)) == len(names) and all(of and name for of, name in names)  # GitLab shows one of each
        assert all(failure.get("message") and failure.text for failure in suite.iter("failure"))
    return root


def test_foreign_names_stay_text_in_the_files(side: Any, tmp_path: Path) -> None:
    before = {f"{tag}:{at}": 1.0 for tag in (HOSTILE, "b") for at in range(20)}
    found = compare_sides(side(before, HOSTILE), side(dict.fromkeys(before, 0.0), HOSTILE), HOSTILE)
    checks = decide([found], Limits())
    write_junit(tmp_path / "x.xml", checks)
    [suite] = junit(tmp_path / "x.xml")
    assert [case.get("name") for case in suite][2] == "slice: <b>&]]> | `x` [y](z) [31m {{ 7 }} @all #1 http://x"
    write_summary(tmp_path / "x.md", [HOSTILE, "b"], checks)
    summary = (tmp_path / "x.md").read_text()
    table = [line for line in summary.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(checks)
    assert {line.replace("\\|", "").count("|") for line in table} == {9}  # eight columns
    assert not any(called in summary for called in ("@all", "#1", "://"))  # nobody is called, nothing linked
    assert "<b>" not in summary and "[y](z)" not in summary and "\x1b" not in summary and "\x00" not in summary


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-drop", "-1"], "--max-drop is -1.0"),
        (["--slice-max-drop", "nan"], "--slice-max-drop is nan"),
        (["--min-coverage", "95"], "--min-coverage is 95.0, must be from 0 to 1"),
        (["--metric", "other"], "b.jsonl: has no metric 'other'; it has: m"),
        ([], "b.jsonl: has no metric 'n'; it has: m"),  # a gate does not leave out what the baseline has
    ],
)
def test_bad_input_is_one_line_and_status_2(options: list[str], said: str, run: Any, write_results: Any) -> None:
    scored: dict[str, Any] = {"1": 1.0}
    write_results("a.jsonl", {"m": scored, "n": scored, "other": scored})
    write_results("b.jsonl", scored)
    refused = run("gate", "a.jsonl", "b.jsonl", *options)
    assert refused.returncode == 2 and said in refused.stderr and refused.stderr.count("\n") == 1
    assert run("gate", "a.jsonl", "b.jsonl", "--metric", "m").returncode == 0
