"""The layouts in which people keep answers: which of their fields hold what a `Case` needs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rag_zeval.errors import InputError

OURS = (
    "id", "question", "answer", "answers", "system", "reference", "contexts", "truth", "slice_tag", "context_ids",
    "gold_chunk_ids", "latency_s",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """`fields`: for what we call a field, what others call it. `known_by`: fields that every row has.

    by_passage: whether a row is one retrieved passage, so that rows of one `id` and `run` make a case.
    """

    name: str
    known_by: tuple[str, ...]
    fields: Mapping[str, str]
    by_passage: bool = False


LAYOUTS = (
    Layout(
        "ragas",  # ragas 0.4: SingleTurnSample
        ("user_input", "response"),
        {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts", "truth": "reference",
         "context_ids": "retrieved_context_ids", "gold_chunk_ids": "reference_context_ids"},
    ),
    Layout(
        "RAGChecker",  # ragchecker 0.1.9: RAGResult
        ("query", "response", "gt_answer"),
        {"id": "query_id", "question": "query", "answer": "response", "truth": "gt_answer",
         "contexts": "retrieved_context"},
    ),
    Layout(
        "open-rag-eval",  # open-rag-eval 0.3.0: RAGResultsLoader
        ("query", "passage", "generated_answer"),
        {"id": "query_id", "question": "query", "answer": "generated_answer", "contexts": "passage",
         "context_ids": "passage_id", "run": "query_run"},
        by_passage=True,
    ),
    Layout(
        "DeepEval",  # deepeval: LLMTestCase
        ("input", "actual_output"),
        {"question": "input", "answer": "actual_output", "truth": "expected_output", "contexts": "retrieval_context",
         "id": "name"},
    ),
    Layout("ragas before 0.2", ("question", "ground_truth"), {**{n: n for n in OURS}, "truth": "ground_truth"}),
    Layout("golden set", ("question", "gold_answer"), {**{n: n for n in OURS}, "truth": "gold_answer"}),
    Layout("RAG-Zeval", ("question",), {n: n for n in OURS}),
)  # fmt: skip


def find_layout(there: Collection[str], names: Mapping[str, str]) -> Layout:
    """The layout of rows that have these fields; `names` are the user's own, by our name, and come first.

    Fields that a layout does not name keep our names. Raises InputError, which says what is like the field that is
    missing, if there is none.
    """
    for name in names:
        if name not in OURS:
            raise InputError(f"--map: there is no field '{name}'; there is: {', '.join(OURS)}")
    given = {*there, *(ours for ours, theirs in names.items() if theirs.partition(".")[0] in there)}
    for layout in LAYOUTS:
        if all(field in given for field in layout.known_by):
            fields = {name: name for name in OURS if name not in ("reference", *layout.fields)}
            return Layout(layout.name, layout.known_by, {**fields, **layout.fields, **names}, layout.by_passage)
    raise InputError(missing("question", there))


def missing(field: str, there: Collection[str]) -> str:
    """That a field is missing, and which of those that are there may have been meant."""
    theirs = {layout.fields[field] for layout in LAYOUTS if field in layout.fields}
    like = [name for name in there if name in theirs or difflib.get_close_matches(name.lower(), [field, *theirs], 1)]
    if not like:
        return f"field '{field}' is missing; found {', '.join(map(repr, there)) or 'none'}"
    return f"field '{field}' is missing; found '{like[0]}': did you mean '{field}'? (--map {field}={like[0]})"
