"""The HTML report: one file, no outside assets, every claim with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rag_zeval.files import Row, write_chunks
from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.quotes import Quoted, find_quotes
from rag_zeval.judge.schema import LETTERS
from rag_zeval.results import Summary

TEMPLATES = Path(__file__).parent / "templates"
STATUSES_SHOWN = 12  # a reason may quote its reply, and so be one of many


def summary_lines(summary: Summary) -> list[tuple[str, str]]:
    """The end-of-run table: `(name, value)` per line."""
    lines = [
        ("rows", str(summary.rows)),
        ("answers scored", f"{summary.scored} of {summary.answers} (coverage {summary.coverage:.1%})"),
        ("mean score", "none" if summary.mean is None else f"{summary.mean:.3f}"),
        ("95% bootstrap interval", "none" if summary.ci is None else f"{summary.ci[0]:.3f} to {summary.ci[1]:.3f}"),
    ]
    if summary.trial_sd is not None:
        lines.append(("SD over trials", f"{summary.trial_sd:.3f}"))
    lines += [
        ("calls", f"{summary.calls} ({summary.cached} rows from the cache)" if summary.cached else str(summary.calls)),
        ("tokens", f"{_tokens(summary, summary.prompt_tokens)} in, {_tokens(summary, summary.completion_tokens)} out"),
    ]
    lines += [(f"rows {status}", str(count)) for status, count in list(summary.statuses.items())[:STATUSES_SHOWN]]
    if rest := list(summary.statuses.values())[STATUSES_SHOWN:]:
        lines.append(("rows with other failures", str(sum(rest))))
    return lines


def _tokens(summary: Summary, count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"at least {count}" if summary.untold else str(count)


def write_report(path: str | Path, examples: Iterable[Example], rows: Iterable[Row], summary: Summary) -> None:
    """Write the report of result rows (see rag_zeval.results) on these examples. All text in it is escaped.

    `rows` is gone through twice, a row at a time. The file is replaced in one step.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    by_id = {example.id: example for example in examples}
    page = environment.get_template("report.html").generate(
        lines=summary_lines(summary),
        provenance=next(iter(rows)),
        alone=summary.rows == 1,
        cards=(judged(by_id[row["example"]], row) for row in rows),
        letters=LETTERS,
    )
    write_chunks(Path(path), (piece.encode("utf-8", "replace") for piece in page))


def judged(example: Example, row: Row) -> dict[str, Any]:
    """What a template shows of an example and a row with its "trajectory" and "scores".

    answers: text, score and claims, each claim with its quotes and how far they are verbatim; reference: its pieces
    `(text, is quoted)`, for one time through.
    """
    candidates = row["trajectory"] or [None] * len(example.answers)
    claims = [candidate["atomic_claims"] if candidate else [] for candidate in candidates]
    quoted = find_quotes(
        example.reference,
        (quote for of_answer in claims for claim in of_answer for quote in claim["grounding_evidence"]),
    )
    answers = [
        {"text": text, "score": score, "claims": [_claim(claim, quoted) for claim in of_answer]}
        for text, score, of_answer in zip(example.answers, row["scores"], claims, strict=True)
    ]
    return {"row": row, "example": example, "answers": answers, "reference": quoted.pieces()}


def _claim(claim: dict[str, Any], quoted: Quoted) -> dict[str, Any]:
    evidence = [{"text": quote, "verbatim": quoted.verbatim[quote]} for quote in claim["grounding_evidence"]]
    return {**claim, "evidence": evidence}
