"""The HTML report: one file, no outside assets, every claim with its evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_zeval.evaluator import Example
from rag_zeval.evidence import ReferenceIndex
from rag_zeval.files import Row, write_text
from rag_zeval.results import Summary
from rag_zeval.schema import LETTERS

TEMPLATES = Path(__file__).parent / "templates"
STATUSES_SHOWN = 12  # a reason may quote its reply, and so be one of many
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\w\s]")


def words(text: str) -> list[str]:
    """Words and punctuation marks; CJK characters one by one, for they are written without spaces."""
    return _WORD.findall(text)


def verbatim_share(quote: str, reference: ReferenceIndex) -> float:
    """Longest run of the quote's words that stands in the reference / words of the quote, in [0, 1].

    The evidence reward's measure on words, without its minimum length: a report shows short quotes as they are.
    """
    tokens = words(quote)
    return reference.longest_common_span(tokens) / len(tokens) if tokens else 0.0


def marked_reference(reference: str, quotes: Sequence[str]) -> list[tuple[str, bool]]:
    """The reference in pieces `(text, is quoted)`: quoted is every place where all words of a quote stand in a row."""
    places = list(_WORD.finditer(reference))
    tokens = [place.group() for place in places]
    quoted = [False] * len(reference)
    for quote in {tuple(words(quote)) for quote in quotes} - {()}:
        for start in range(len(tokens) - len(quote) + 1):
            if tokens[start] == quote[0] and tuple(tokens[start : start + len(quote)]) == quote:
                first, last = places[start].start(), places[start + len(quote) - 1].end()
                quoted[first:last] = [True] * (last - first)
    pieces: list[tuple[str, bool]] = []
    start = 0
    for at in range(1, len(reference) + 1):
        if at == len(reference) or quoted[at] != quoted[start]:
            pieces.append((reference[start:at], quoted[start]))
            start = at
    return pieces


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


def _tokens(summary: Summary, told: int | None) -> str:
    if told is None:
        return "unknown"
    return f"at least {told}" if summary.untold else str(told)


def write_report(path: str | Path, examples: Sequence[Example], rows: Sequence[Row], summary: Summary) -> None:
    """Write the report of result rows (see rag_zeval.results) on these examples. All text in it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    by_id = {example.id: example for example in examples}
    page = environment.get_template("report.html").render(
        lines=summary_lines(summary),
        provenance=rows[0],
        cards=[judged(by_id[row["example"]], row) for row in rows],
        letters=LETTERS,
    )
    write_text(path, page.encode("utf-8", "replace").decode("utf-8"))


def judged(example: Example, row: Row) -> dict[str, Any]:
    """What a template shows of an example and a row with its "trajectory" and "scores".

    answers: text, score and claims, each claim with its quotes and how far they are verbatim; reference: its pieces as
    `marked_reference` has them.
    """
    index = ReferenceIndex(words(example.reference))
    candidates = row["trajectory"] or [None] * len(example.answers)
    answers, quotes = [], []
    for text, score, candidate in zip(example.answers, row["scores"], candidates, strict=True):
        claims = [_claim(claim, index) for claim in candidate["atomic_claims"]] if candidate else []
        quotes += [quote["text"] for claim in claims for quote in claim["evidence"]]
        answers.append({"text": text, "score": score, "claims": claims})
    reference = marked_reference(example.reference, quotes)
    return {"row": row, "example": example, "answers": answers, "reference": reference}


def _claim(claim: dict[str, Any], index: ReferenceIndex) -> dict[str, Any]:
    evidence = [{"text": quote, "verbatim": verbatim_share(quote, index)} for quote in claim["grounding_evidence"]]
    return {**claim, "evidence": evidence}
