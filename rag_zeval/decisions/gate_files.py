"""What a gate leaves for others to read: JUnit XML for a build server, and Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.decisions.gate import Check, passed
from rag_zeval.decisions.wording import DASH, shown, shown_p
from rag_zeval.files import write_text
from rag_zeval.text import one_line

SUITE = "rag-zeval gate"
XML = "<?xml version='1.0' encoding='utf-8'?>"


def write_junit(path: Path, checks: Sequence[Check]) -> None:
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


def write_summary(path: Path, names: Sequence[str], checks: Sequence[Check]) -> None:
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


def _cells(check: Check) -> list[str]:
    found = check.difference
    numbers = [DASH] * 5
    if found is not None:
        means = [shown(found.first), shown(found.second), shown(found.change, "+.3f")]
        numbers = [str(found.n), *means, shown_p(check.p_holm)]
    return [_plain(check.metric), _plain(check.name), check.outcome, *numbers]


def _plain(text: str) -> str:
    """Foreign text as Markdown that shows it letter by letter."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", one_line(text))
