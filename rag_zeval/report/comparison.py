"""The HTML page of a comparison: one file, without outside assets.

It shows the answers that changed most side by side.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_zeval.decisions.comparison import Changed, Comparison
from rag_zeval.decisions.wording import notes, tables
from rag_zeval.files import write_chunks
from rag_zeval.judge.example import Example
from rag_zeval.report.html import MEANINGS
from rag_zeval.report.judgement import judged
from rag_zeval.results import Judged
from rag_zeval.templates import TEMPLATES, templates
from rag_zeval.text import counted

HEADING = 140  # most characters of a question that stand above its answers while they are closed
SHOWN = 10  # most questions shown that got worse, and as many that got better


def write_page(path: Path, names: Sequence[str], comparisons: Sequence[Comparison]) -> None:
    """Write the page of the comparisons of two sides.

    names: the names of the sides. All text in the page is escaped.
    """
    page = (
        templates(TEMPLATES)
        .get_template("comparison.html")
        .generate(names=names, metrics=[_metric(one) for one in comparisons], meanings=MEANINGS, shown=HEADING)
    )
    write_chunks(path, page)


def _metric(comparison: Comparison) -> dict[str, Any]:
    return {
        "name": comparison.metric,
        "notes": notes(comparison),
        "tables": tables(comparison),
        "changed": [
            (_title(direction, len(changed)), [_changed(one) for one in changed[:SHOWN]])
            for direction, changed in (("worse", comparison.worse), ("better", comparison.better))
        ],
    }


def _title(direction: str, count: int) -> str:
    of_all = f"the {SHOWN} that changed most of {count} questions" if count > SHOWN else counted(count, "question")
    return f"Got {direction}: {of_all}"


def _changed(changed: Changed) -> dict[str, Any]:
    return {"case": changed.first, "sides": [_answer(changed.first), _answer(changed.second)]}


def _answer(of: Judged) -> dict[str, Any]:
    """Return an answer as the page shows it, with its score, its claims and the texts it was judged by."""
    example = Example(of.case, of.question, of.reference, (of.answer,))
    trajectory = [{"atomic_claims": of.claims}] if of.claims else None
    shown = judged(example, {"trajectory": trajectory, "scores": [of.score]})
    texts = [shown["reference"], *([(text, False)] for _, text in of.sources[1:])]
    return {
        **shown["answers"][0],
        "sources": [(name, text) for (name, _), text in zip(of.sources, texts, strict=False)],
    }
