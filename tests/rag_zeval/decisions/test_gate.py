"""When the gate lets a version pass: alarms by chance are counted, damage is planted."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import gate_alarms
from rag_zeval.decisions.comparison import compare_sides
from rag_zeval.decisions.gate import (
    POWER,
    Bar,
    Limits,
    bar_checks,
    cases_needed,
    decide,
    in_order,
    passed,
    read_limits,
    strictly,
    write_junit,
    write_summary,
)
from rag_zeval.decisions.sides import Side
from rag_zeval.decisions.wording import ALPHA, shown_p
from rag_zeval.golden.release_measures import with_measures
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


@settings(max_examples=30, deadline=None)
@given(
    score=st.floats(0.5, 0.99), limit=st.sampled_from([0.0, 0.02, 0.05, 0.1]), past=st.sampled_from([1, 30, 400, 4000])
)
def test_printed_numbers_show_why_a_check_failed_or_passed(side: Any, score: float, limit: float, past: int) -> None:
    def printed(reason: str) -> list[float]:
        return [float(number) for number in re.findall(r"-?\d+\.\d+", reason)]

    for direction in (-1, 1):  # a drop just below and just above the limit, and a value just above and below a bar
        drop = max(0.0, limit + direction * past * 1e-6)
        after = side({str(at): score - drop for at in range(20)})
        [_, check] = decide([compare_sides(side({str(at): score for at in range(20)}), after, "m")], Limits(limit))
        shown = printed(check.reason.partition("B - A is ")[2])[0]
        assert (check.outcome == "passed") == (-shown <= limit), check.reason
        [_, bar] = bar_checks(after, [Bar("m", round(score - limit, 6), least=True)], {}, Limits(), alone=True)
        value, low, _ = printed(bar.reason)[:3]
        told = "failed" if value < round(score - limit, 6) else "warning" if low < round(score - limit, 6) else "passed"
        assert bar.outcome == told, bar.reason


def test_a_p_just_above_alpha_is_not_printed_as_alpha() -> None:
    assert [shown_p(p) for p in (0.05, 0.0502, 0.0498, 0.051, 0.0001)] == [
        "0.050",
        "0.0502",
        "0.0498",
        "0.051",
        "< 0.001",
    ]


def test_a_slice_may_be_called_all(side: Any) -> None:
    before = {f"{tag}:{at}": 1.0 for tag in ("all", "b") for at in range(30)}
    after = {case: 0.97 if case.startswith("all") else 1.0 for case in before}
    expected = {"coverage": "passed", "all": "passed", "slice: all (slice)": "passed", "slice: b": "passed"}
    assert outcomes(side(before), side(after), Limits(slice_max_drop=0.04)) == expected
    assert outcomes(side(before), side(after))["slice: all (slice)"] == "passed"  # not held to the limit of all cases
    assert outcomes(side(before), side(after), STRICT)["slice: all (slice)"] == "failed"


def test_a_drop_that_may_be_chance_is_unclear_with_the_cases_that_would_tell(side: Any) -> None:
    found = compare_sides(side({"1": 1.0, "2": 0.5, "3": 1.0}), side({"1": 0.5, "2": 0.5, "3": 0.75}), "m")
    [coverage, number, overall] = decide([found], Limits())
    assert (coverage.outcome, number.outcome, overall.outcome) == ("passed", "warning", "unclear")
    needed = cases_needed(found.overall.sd or 0.0, 0.25, ALPHA)
    assert f"about {needed} cases" in overall.reason and needed > 3


@pytest.mark.parametrize("n", range(1, 9))
def test_too_few_cases_to_show_any_drop_are_told(side: Any, n: int) -> None:
    """Also if nothing changed: the gate would have passed anything."""
    before, worst = ({str(case): score for case in range(n)} for score in (1.0, 0.0))
    can_fail = outcomes(side(before), side(worst))["all"] == "failed"
    assert can_fail == ("number of cases" not in outcomes(side(before), side(before)))


@pytest.mark.parametrize(("shift", "alpha"), [(0.1, 0.05), (0.05, 0.01), (1.0, 0.01)])
def test_as_many_cases_as_are_asked_for_tell_with_the_power_that_is_said(shift: float, alpha: float) -> None:
    random = np.random.default_rng(5)
    n = cases_needed(0.4, shift, alpha)
    told = sum(randomisation_p(random.normal(-shift, 0.4, n), 2000, seed) <= alpha for seed in range(300))
    assert told / 300 > POWER - 0.08  # three standard deviations are 0.07
    assert told / 300 < POWER + 0.08 or n < 20  # few cases: a step of p is large


def test_a_small_slice_that_falls_far_warns_first_and_fails_strictly(side: Any) -> None:
    """4 of 12 fall from 1 to 0 while 48 others stay: its own signs tell nothing (p = .125), their place does."""
    before = {f"{SLICES[at % 5 - 1] if at % 5 else 'adversarial'}:{at}": 1.0 for at in range(60)}
    fallen = [case for case in before if case.startswith("adversarial")][:4]
    checks = in_order(decide([compare_sides(side(before), side(before | dict.fromkeys(fallen, 0.0)), "m")], Limits()))
    assert [(check.name, check.outcome) for check in checks[:2]] == [
        ("slice: adversarial", "warning"),
        ("all", "unclear"),
    ]
    assert "hardly noise, compared with the other cases" in checks[0].reason and passed(checks)
    assert not passed(strictly(checks)) and strictly(checks)[0].reason.startswith(
        "a warning, and --strict is on: worse"
    )
    spread = [f"{tag}:{at}" for at, tag in ((1, "billing"), (2, "login"), (5, "adversarial"), (10, "adversarial"))]
    checks = decide([compare_sides(side(before), side(before | dict.fromkeys(spread, 0.0)), "m")], Limits())
    assert passed(strictly(checks)) and "unclear" in {check.outcome for check in checks}


def test_strict_finds_what_fell_by_a_third_and_raises_few_alarms() -> None:
    third, _, same, *_ = gate_alarms.RELEASES
    found, nothing = (list(gate_alarms.checks(release, 0.05, 60)) for release in (third, same))
    assert sum(not passed(strictly(one)) for one in found) >= 57 and all(
        one[0].name == "slice: slice 0" for one in found
    )
    assert sum(not passed(strictly(one)) for one in nothing) <= 6


def test_limits_of_single_metrics_and_shares_of_seconds(side: Any) -> None:
    cost = "cost_per_1000"
    cheap, dear = (side({str(at): value for at in range(50)}, cost) for value in (10.0, 10.4))
    found = compare_sides(cheap, dear, cost)
    assert found.lower_is_better and found.bounds is None
    assert not passed(decide([found], Limits())) and passed(decide([found], Limits(max_drop=0.05)))  # 4% of A
    assert passed(decide([found], read_limits(["0.01", f"{cost}=0.05"], [], 0.95)))
    assert not passed(decide([found], read_limits(["0.5", f"{cost}=0.03"], [], 0.95)))


def test_every_number_of_a_release_can_be_gated(run: Any, write_results: Any) -> None:
    told = {"latency_s": 1.0, "cost_usd": 0.002, "retrieved": ["c", "gold"], "gold_chunk_ids": ["gold"]}
    scored = {"rag_zeval@contexts": {f"{SLICES[at % 4]}:{at}": 1.0 for at in range(40)}}
    write_results("a.jsonl", scored, **told)
    names = ["recall@2", "ndcg@2", "latency_p95", "latency_mean", "cost_per_1000", "retrieved_and_supported@2"]
    asked = [word for name in names for word in ("--metric", name)]
    same = run("gate", "a.jsonl", "./a.jsonl", *asked)
    assert same.returncode == 0 and same.stdout.count("passed ") == 6 * len(names)
    assert "warning  every metric, files: A and B are the same file" in same.stdout
    write_results("b.jsonl", scored, **(told | {"latency_s": 3.0, "cost_usd": 0.003, "retrieved": ["c", "d"]}))
    worse = run("gate", "a.jsonl", "b.jsonl", *asked)
    assert worse.returncode == 1
    for name, change in zip(names, ("-1.000", "-0.631", "+2.000", "+2.000", "+1.000", "-1.000"), strict=True):
        assert re.search(rf"failed   {name}, all: worse .* B - A is {re.escape(change)} ", worse.stdout)
    alone = run("compare", "a.jsonl", "b.jsonl", "--metric", "recall@1")
    assert alone.returncode == 0 and "+0.000" in alone.stdout
    by_twos = run("compare", "a.jsonl", "b.jsonl", "a.jsonl#answer", "--metric", "latency_p95")
    assert by_twos.returncode == 2 and "latency_p95 compares two files, got 3" in by_twos.stderr


def test_a_case_without_what_a_measure_needs_has_no_score(side: Any) -> None:
    cases = side({"1": 0.4, "2": 0.6, "3": 0.6, "4": None, "no gold": 1.0}, "rag_zeval")
    cases = replace(cases, judged={"rag_zeval": {**cases.judged["rag_zeval"], "5": replace(
        cases.judged["rag_zeval"]["4"], case="5", nothing_retrieved=True)}})  # fmt: skip
    ids = {"1": ["g"], "2": ["g"], "3": [], "4": ["g"], "5": [], "no gold": ["g"]}
    judged = {
        case: replace(one, retrieved=tuple(ids[case]), gold_chunk_ids=() if case == "no gold" else ("g", "h"))
        for case, one in cases.judged["rag_zeval"].items()
    }
    found = with_measures(
        Side("x", {"rag_zeval": judged}), ["recall@3", "retrieved_and_supported@1", "unknown@1"]
    ).judged
    scores = {name: {case: one.score for case, one in by_case.items()} for name, by_case in found.items()}
    assert scores["recall@3"] == {"1": 0.5, "2": 0.5, "3": None, "4": 0.5, "5": 0.0}
    assert scores["retrieved_and_supported@1"] == {"1": 0.0, "2": 1.0, "3": None, "4": None, "5": 0.0}
    assert len(scores) == 3


def test_a_judge_that_gave_no_score_at_all_fails_by_coverage_and_not_for_lack_of_ids(side: Any) -> None:
    judged = side({"1": None, "2": None}, "rag_zeval").judged["rag_zeval"]
    judged = {case: replace(one, status="failed: timeout", retrieved=("g",), gold_chunk_ids=("g",))
              for case, one in judged.items()}  # fmt: skip
    [*_, found] = with_measures(Side("x", {"rag_zeval": judged}), ["retrieved_and_supported@1"]).judged.values()
    assert [(one.score, one.status) for one in found.values()] == [(None, "failed: timeout")] * 2


def test_a_first_release_is_held_against_bars(run: Any, write_results: Any, tmp_path: Path) -> None:
    write_results("b.jsonl", {"m": {str(at): float(at % 10 > 0) for at in range(100)}}, latency_s=1.5)  # mean 0.9
    for bar, outcome, status in (("0.91", "failed ", 1), ("0.9", "warning", 0), ("0.8", "passed ", 0)):
        shown = run("gate", "b.jsonl", "--min", f"m={bar}", "--max", "latency_p95=2", "--summary", "b.md")
        assert shown.returncode == status and shown.stdout.startswith("B: b.jsonl\n")
        assert f"{outcome}  m, at least {bar}: 0.900 [0.826, 0.945], n = 100" in shown.stdout  # Wilson's
        assert "passed   latency_p95, at most 2: 1.500 [1.500, 1.500], n = 100" in shown.stdout
        assert "m, coverage: B: 100 of 100" in shown.stdout and (tmp_path / "b.md").read_text().count("\nB: ") == 1
        assert "| 100 | – | 1.500 [1.500, 1.500] | – | – |" in (tmp_path / "b.md").read_text()
        assert run("gate", "b.jsonl", "--min", f"m={bar}", "--strict").returncode == int(outcome != "passed ")
    with_baseline = run("gate", "b.jsonl", "b.jsonl", "--min", "m=0.95", "--junit", "x.xml")
    assert with_baseline.returncode == 1 and with_baseline.stdout.splitlines()[2].startswith(
        "failed   m, at least 0.95"
    )
    assert with_baseline.stdout.count("coverage") == 1
    write_results("few.jsonl", {"1": 1.0, "2": None})
    few = run("gate", "few.jsonl", "--min", "m=0.1")
    assert few.returncode == 1 and "failed   m, coverage: B: 1 of 2 cases" in few.stdout


def test_missing_scores_fail_by_coverage_and_never_as_scores_of_zero(side: Any) -> None:
    scored = {str(at): 1.0 for at in range(100)}
    before, few = side(scored), side({case: (None if int(case) < 5 else 1.0) for case in scored})
    assert outcomes(before, few) == {"coverage": "passed", "all": "passed"}  # 95 of 100, change 0
    assert outcomes(before, few, Limits(min_coverage=0.951))["coverage"] == "failed"
    left_out = side({case: score for case, score in scored.items() if int(case) >= 6})
    assert outcomes(before, left_out)["coverage"] == "failed"  # a case that B lacks is no score either
    assert outcomes(before, side(dict.fromkeys(scored)), Limits(min_coverage=0))["all"] == "failed"
    [check, _] = decide([compare_sides(before, few, "m", draws=100)], Limits(min_coverage=0.9502))
    said = "B: 95 of 100 cases have a score (95.00%), must be at least 95.02%; most frequent reason: no claims"
    assert check.reason == f"{said} (5 cases)"
    fewer = side({case: (None if case == "0" else 1.0) for case in scored if int(case) < 90})
    check = decide([compare_sides(before, fewer, "m", draws=100)], Limits())[0]
    assert check.reason.endswith("must be at least 95.0%; most frequent reason: not in the file (10 cases)")


def test_a_slice_without_scores_fails_and_one_missing_score_of_a_small_slice_could_be_chance(side: Any) -> None:
    scored = {f"{'search' if at < 12 else 'api'}:{at}": 1.0 for at in range(300)}

    def of_slices(missing: int, limits: Limits = Limits()) -> dict[str, str]:  # noqa: B008 (frozen)
        found = outcomes(side(scored), side(scored | dict.fromkeys([*scored][:missing])), limits)
        assert found["coverage"] == "passed" or limits != Limits()
        return {name: one for name, one in found.items() if name.startswith("coverage of slice")}

    assert of_slices(0) == {}
    assert of_slices(1) == {"coverage of slice: search": "unclear"}
    assert of_slices(11) == {"coverage of slice: search": "failed"}
    assert of_slices(1, Limits(min_coverage=1.0)) == {"coverage of slice: search": "failed"}
    assert of_slices(11, Limits(min_coverage=0.0)) == {}


def test_a_baseline_with_few_scores_is_warned_of(side: Any) -> None:
    scored = {str(at): 1.0 for at in range(100)}
    few = side({case: score if int(case) < 10 else None for case, score in scored.items()})
    assert outcomes(few, side(scored))["coverage of A"] == "warning"
    assert "coverage of A" not in outcomes(side(scored), few)


def test_one_case_has_no_interval(side: Any, run: Any, write_results: Any) -> None:
    for metric in ("m", "latency_p95"):
        found = compare_sides(side({"1": 0.7}, metric), side({"1": 0.2}, metric), metric)
        for one in (found.overall.first, found.overall.second, found.overall.change):
            assert one is not None and one.low is one.high is None
    write_results("one.jsonl", {"1": 0.7})
    bar = run("gate", "one.jsonl", "--min", "m=0.5")
    assert "warning  m, at least 0.5: 0.700, n = 1: a single case has no interval" in bar.stdout
    assert run("compare", "one.jsonl", "one.jsonl", "--html", "one.html").returncode == 0


def test_dollars_of_0_are_no_share(run: Any, write_results: Any) -> None:
    write_results("free.jsonl", {str(at): 1.0 for at in range(5)}, cost_usd=0.0)
    shown = run("gate", "free.jsonl", "--max", "cost_per_1000=0.1")
    assert "passed   cost_per_1000, at most 0.1: 0.000 [0.000, 0.000], n = 5" in shown.stdout


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
    assert "slice: <b>&]]> | `x` [y](z) [31m {{ 7 }} @all #1 http://x" in [case.get("name") for case in suite]
    write_summary(tmp_path / "x.md", {"A": HOSTILE, "B": "b"}, checks)
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
        (["--max-drop", "m=x"], "--max-drop is 'm=x', must be a number or METRIC=NUMBER"),
        (["--slice-max-drop", "m=-2"], "--slice-max-drop is -2.0"),
        (["--min", "0.9"], "--min is 0.9, must be METRIC=NUMBER"),
        (["--max", "m=1", "--max", "m=2"], "--max has two numbers for m"),
        (["--max-drop", "0.01", "--max-drop", "0.5"], "--max-drop has two numbers without a metric, 0.01 and 0.5"),
        (["--min", "m=nan"], "--min is m=nan, must be a finite number"),
        (["--metric", "m", "--max-drop", "n=1"], "--max-drop: n is not compared: name it with --metric, or one of: m"),
        (["--metric", "m", "--slice-max-drop", "mm=0"], "--slice-max-drop: mm is not compared"),
        (["--metric", "m", "--min", "absent=1"], "b.jsonl: has no metric 'absent'; it has: m"),
        (["--metric", "recall@5"], "a.jsonl: recall@5 needs the columns context_ids and gold_chunk_ids"),
        (["--metric", "m", "--max", "latency_p95=2"], "b.jsonl: latency_p95 needs the column latency_s"),
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
    assert "without a second file, name what the first must reach" in run("gate", "b.jsonl").stderr
