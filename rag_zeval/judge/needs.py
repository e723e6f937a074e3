"""What an example must have so that its answers can be judged. Each scorer lists its needs; they are checked here.

A need is a field of Example: "answer" (each of `answers`), "reference", "truth" or "chunks". "truth or reference" means
that a reference that the example gives itself may replace the truth. Measures of overlap need "any answer", which may
be empty: it overlaps with nothing, and published values of BLEU and ROUGE-L count it as 0.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from rag_zeval.judge.example import Example
from rag_zeval.text import is_blank, one_line

ANSWER, ANY_ANSWER, OR = "answer", "any answer", " or "
ANSWERS = (ANSWER, ANY_ANSWER)
BETWEEN = "\n\n"  # between retrieved chunks that are joined into one text
NOUNS = {  # what messages call needs and kinds of reference
    ANSWER: "answer",
    ANY_ANSWER: "answer",
    "reference": "reference",
    "truth": "ground truth",
    "chunks": "retrieved contexts",
    "contexts": "retrieved contexts",
}


class Given(NamedTuple):
    """The texts with which an example meets a need. kind: "reference", "truth" or "contexts"."""

    kind: str
    texts: tuple[str, ...]


def given(example: Example, need: str) -> Given | None:
    """Return the texts with which an example meets a need other than "answer"; None if they are blank.

    Only a reference of the kind "reference", which the example gives itself, may replace another field.
    """
    for field in need.split(OR):
        found = _given(example, field)
        if not is_blank(found.texts) and (field == need or field != "reference" or found.kind == field):
            return found
    return None


def texts_of(example: Example, need: str) -> tuple[str, ...]:
    """Return the texts of a need that the example is known to meet."""
    found = given(example, need)
    assert found is not None
    return found.texts


def _given(example: Example, field: str) -> Given:
    if field == "reference":
        return Given(example.reference_kind, (example.reference,))
    return Given("contexts", example.chunks) if field == "chunks" else Given("truth", (example.truth or "",))


def lacking(example: Example, needs: Collection[str]) -> tuple[str | None, ...]:
    """Return for each answer the status that says what is missing, such as "failed: no answer"; None if nothing is."""
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
    """Return in words the needs that no example meets; empty if one example meets all needs.

    If each need is met by some example, but all of them by none, all are returned.
    """
    if any(None in lacking(example, needs) for example in examples):
        return []
    alone = [need for need in needs if not any(None in lacking(example, (need,)) for example in examples)]
    return [NOUNS[need.partition(OR)[0]] for need in alone or needs]


def judged_by(example: Example, needs: Iterable[str], also: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a result row that hold the texts by which the answers are judged, each text once.

    The fields are "reference" and "reference_kind": the example's own reference if needed, else the truth, else the
    chunks. If the truth or the chunks are needed too, they are in "truth" and "chunks". also: needs that are optional.
    If only the answer is needed, the reference is "" and its kind None.
    """
    sources = [given(example, need) or Given(_kind(example, need), ()) for need in needs if need not in ANSWERS]
    sources += [found for need in also if (found := given(example, need))]
    texts = {source.kind: source.texts for source in reversed(sources)}  # a reference may be one of the others
    if not texts:
        return {"reference": "", "reference_kind": None}
    first, *others = sorted(texts, key=lambda kind: (kind == "contexts", kind == "truth"))
    kept: dict[str, Any] = {"reference": BETWEEN.join(texts[first]), "reference_kind": first}
    if "truth" in others:
        kept["truth"] = BETWEEN.join(texts["truth"])
    return {**kept, "chunks": list(texts["contexts"])} if "contexts" in others else kept


def _kind(example: Example, need: str) -> str:
    field = need.partition(OR)[0]
    return {"reference": example.reference_kind, "chunks": "contexts"}.get(field, field)
