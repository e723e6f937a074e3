"""What is needed to judge the answers of an example: named by each scorer, looked for here before it sees them.

A need is a field of Example: "answer" (each of `answers`), "reference", "truth", "chunks"; or two, as in "truth or
reference", where the example's own reference may stand in for the first. Measures of overlap need "any answer", which
may be an empty text: it overlaps with nothing, and published values of BLEU and ROUGE-L count it as 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from rag_zeval.judge.example import Example
from rag_zeval.text import is_blank, one_line

ANSWER, ANY_ANSWER, OR = "answer", "any answer", " or "
ANSWERS = (ANSWER, ANY_ANSWER)
BETWEEN = "\n\n"  # retrieved chunks, where they are one text
NOUNS = {  # of needs, and of what a reference is
    ANSWER: "answer",
    ANY_ANSWER: "answer",
    "reference": "reference",
    "truth": "ground truth",
    "chunks": "retrieved contexts",
    "contexts": "retrieved contexts",
}


class Given(NamedTuple):
    """What an example has of a need. kind: "reference", "truth" or "contexts"."""

    kind: str
    texts: tuple[str, ...]


def given(example: Example, need: str) -> Given | None:
    """What the example has of a need that is not "answer"; None where it is blank.

    Only a reference of its own stands in for another field: not contexts or a truth that the answers are judged by.
    """
    for field in need.split(OR):
        found = _given(example, field)
        if not is_blank(found.texts) and (field == need or field != "reference" or found.kind == field):
            return found
    return None


def texts_of(example: Example, need: str) -> tuple[str, ...]:
    """The texts that an example has of a need which it is known to have."""
    found = given(example, need)
    assert found is not None
    return found.texts


def _given(example: Example, field: str) -> Given:
    if field == "reference":
        return Given(example.reference_kind, (example.reference,))
    return Given("contexts", example.chunks) if field == "chunks" else Given("truth", (example.truth or "",))


def lacking(example: Example, needs: Collection[str]) -> tuple[str | None, ...]:
    """Of each answer, the status that says what is missing to judge it, as "failed: no answer"; None: nothing is."""
    missing = [NOUNS[_kind(example, need)] for need in needs if need not in ANSWERS and given(example, need) is None]
    common = f"failed: {' and '.join(f'no {noun}' for noun in missing)}" if missing else None
    if not set(ANSWERS) & set(needs):
        return (common,) * len(example.answers)
    why = example.unanswered or ("",) * len(example.answers)
    return tuple(
        f"failed: {one_line(reason) or 'no answer'}" if reason or (ANSWER in needs and is_blank(answer)) else common
        for reason, answer in zip(why, example.answers, strict=True)
    )


def missing_everywhere(examples: Sequence[Example], needs: Collection[str]) -> list[str]:
    """The nouns of what no example has of these needs, or has together with the others; none where one has them all."""
    if any(None in lacking(example, needs) for example in examples):
        return []
    alone = [need for need in needs if not any(None in lacking(example, (need,)) for example in examples)]
    return [NOUNS[need.partition(OR)[0]] for need in alone or needs]


def judged_by(example: Example, needs: Iterable[str], also: Iterable[str] = ()) -> dict[str, Any]:
    """What answers are judged by, as a result row keeps it, each by its own name and no text twice.

    `reference`, the text, and `reference_kind`, what it is: of the needs, the reference or the truth, else the chunks;
    `chunks` are kept beside it where those are needed, too. also: what is looked at where the example has it.
    Where nothing is needed but the answer, the reference is "" and its kind None.
    """
    sources = [given(example, need) or Given(_kind(example, need), ()) for need in needs if need not in ANSWERS]
    sources += [found for need in also if (found := given(example, need))]
    if not sources:
        return {"reference": "", "reference_kind": None}
    first, *chunks = sorted(sources, key=lambda source: source.kind == "contexts")
    kept: dict[str, Any] = {"reference": BETWEEN.join(first.texts), "reference_kind": first.kind}
    return {**kept, "chunks": list(chunks[0].texts)} if chunks else kept


def _kind(example: Example, need: str) -> str:
    field = need.partition(OR)[0]
    return {"reference": example.reference_kind, "chunks": "contexts"}.get(field, field)
