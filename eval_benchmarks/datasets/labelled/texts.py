"""Labelled texts from files: tables with a label in each row, or RAGTruth's answers with spans and their sources."""

import glob
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval_benchmarks.datasets.labelled.description import (
    MACRO,
    POOLED,
    Columns,
    Description,
    Reading,
    SplitFiles,
)
from eval_benchmarks.datasets.labelled.spans import Spans
from rag_zeval.cases.reading import read_rows
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields, locate
from rag_zeval.text import is_blank, one_line

QA = "QA"  # the task of RAGTruth whose sources hold a question
ANSWER_FIELDS: FieldTypes = {"source_id": str, "response": str, "labels": list}
SOURCE_FIELDS: FieldTypes = {"source_id": str, "task_type": str, "source_info": (str, dict)}
SPAN_FIELDS: FieldTypes = {"start": int, "end": int}
EMPTY = "field '{}' is empty: fill it in, or remove the row"


@dataclass(frozen=True)
class Document:
    """What a text must be supported by, and the question that the text answers ("" if there is none).

    data_set: the part of the set that it belongs to.
    """

    data_set: str
    question: str
    text: str


@dataclass(frozen=True)
class LabelledText:
    """A claim or an answer, with its label in each reading.

    supported: for each reading whether it is supported; None if the reading leaves it out. spans: for each reading the
    unsupported spans; None if the set has none.
    """

    document: Document
    text: str
    supported: tuple[bool | None, ...]
    spans: tuple[Spans, ...] | None = None


def find_files(data_dir: Path, pattern: str) -> list[Path]:
    """Return the files in `data_dir` that fit a pattern. An absolute pattern is looked up where it says."""
    found = glob.iglob(pattern, root_dir=data_dir, recursive=True)
    return sorted(path for path in map(data_dir.joinpath, found) if path.is_file())


def read_split(
    description: Description, split: SplitFiles, data_dir: Path
) -> tuple[list[LabelledText], Mapping[str, int]]:
    """Return the texts of a part, in the order of its files, and how many rows were left out, by the reason.

    A document that many rows repeat is kept in memory once. Raises InputError, naming file, line and field, for a row
    that does not fit. Also raises it if no row counts.
    """
    left_out: Counter[str] = Counter()
    texts: list[LabelledText] = []
    documents: dict[Document, Document] = {}
    taken: Counter[str] = Counter()
    for text in _read(description, split, data_dir, left_out):
        document = text.document
        if document not in documents:
            if split.documents is not None and taken[document.data_set] == split.documents:
                continue
            taken[document.data_set] += 1
        texts.append(replace(text, document=documents.setdefault(document, document)))
    if not texts:
        raise InputError(f"{data_dir / split.files}: the files have no row that can be used")
    return texts, left_out


def _read(
    description: Description, split: SplitFiles, data_dir: Path, left_out: Counter[str]
) -> Iterator[LabelledText]:
    sources = _sources(data_dir / description.sources) if description.sources else {}
    for path in find_files(data_dir, split.files):
        for place, row in read_rows(path):
            with locate(place):
                check_fields(row, dict.fromkeys((*split.part, *split.where), str))
                if any(row[name] != value for name, value in split.part.items()):
                    continue
                if others := [f"{name} is {row[name]}" for name, value in split.where.items() if row[name] != value]:
                    left_out[others[0]] += 1
                elif description.columns is None:
                    yield _answer(description, sources, row)
                else:
                    text = _labelled(description, description.columns, row)
                    if any(supported is not None for supported in text.supported):
                        yield text


def _labelled(description: Description, columns: Columns, row: Row) -> LabelledText:
    data_set = _data_set(row, columns.data_set) if columns.data_set else ""
    question = _text(row, columns.question) if columns.question else description.questions.get(data_set)
    document = Document(data_set, description.question if question is None else question, _text(row, columns.document))
    label = _label(row, columns.label, description.readings)
    supported = tuple(reading.labels.get(label) for reading in description.readings)
    return LabelledText(document, _text(row, columns.text), supported)


def _data_set(row: Row, name: str) -> str:
    """Return the name of a row's data set, on one line.

    Raises InputError for no name, and for one that cannot be told apart in a metric's name.
    """
    data_set = one_line(_text(row, name))
    if is_blank(data_set):
        raise InputError(EMPTY.format(name))
    if ":" in data_set or data_set in (MACRO, POOLED):
        raise InputError(
            f"field '{name}': rename the data set {data_set[:80]!r}: {MACRO} and {POOLED} are averages, and a name "
            "with ':' would be taken for a reading of the labels"
        )
    return data_set


def _text(row: Row, name: str) -> str:
    """Return the text of a field. A list of texts is joined by spaces."""
    _check_filled(row, name)
    check_fields(row, {name: (str, list)})
    value = row[name]
    if isinstance(value, list):
        if not all(isinstance(one, str) for one in value):
            raise InputError(f"field '{name}' must hold texts")
        return " ".join(value)
    text: str = value
    return text


def _check_filled(row: Row, name: str) -> None:
    if name in row and row[name] is None:
        raise InputError(EMPTY.format(name))


def _label(row: Row, name: str, readings: Sequence[Reading]) -> str:
    """Return a row's label. Raises InputError if no reading knows it, because it would be left out silently."""
    _check_filled(row, name)
    check_fields(row, {name: (str, int, float, bool)})
    label = str(row[name])
    known = dict.fromkeys(known for reading in readings for known in reading.labels)
    if label not in known:
        raise InputError(f"field '{name}' must be one of {', '.join(known)}, found {label[:80]!r}")
    return label


def _sources(path: Path) -> dict[str, Document]:
    """Read RAGTruth's documents by id, with the question if there is one.

    The text of a document is its passages, its text, or its data as JSON.
    """
    sources: dict[str, Document] = {}
    for place, row in read_rows(path):
        with locate(place):
            check_fields(row, SOURCE_FIELDS)
            info, question = row["source_info"], ""
            if row["task_type"] == QA:
                check_fields(info, {"question": str, "passages": str})
                info, question = info["passages"], info["question"]
            elif isinstance(info, dict):
                info = json.dumps(info, ensure_ascii=False)
            sources[row["source_id"]] = Document(_data_set(row, "task_type"), question, info)
    return sources


def _answer(description: Description, sources: Mapping[str, Document], row: Row) -> LabelledText:
    check_fields(row, ANSWER_FIELDS)
    if row["source_id"] not in sources:
        raise InputError(f"field 'source_id': {row['source_id']} is not in {description.sources}")
    document = sources[row["source_id"]]
    if not document.question:
        question = description.questions.get(document.data_set, description.question)
        document = replace(document, question=question)
    for number, span in enumerate(row["labels"]):
        with locate(f"field 'labels': entry {number}"):
            check_fields(span, SPAN_FIELDS)
            if not 0 <= span["start"] <= span["end"] <= len(row["response"]):
                raise InputError(f"{span['start']} to {span['end']} is outside the response")
    spans = tuple(
        tuple(
            (span["start"], span["end"])
            for span in row["labels"]
            if not any(span.get(mark) for mark in reading.ignored)
        )
        for reading in description.readings
    )
    return LabelledText(document, row["response"], tuple(not of for of in spans), spans)
