"""Cases out of what people have: JSONL, JSON, CSV, TSV, Parquet, a DataFrame, a `datasets.Dataset`, a list of dicts."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from rag_zeval.cases.case import Case
from rag_zeval.cases.layouts import Layout, find_layout, missing
from rag_zeval.errors import InputError, needed
from rag_zeval.files import Row, iter_jsonl, locate, read_json
from rag_zeval.judge.schema import LETTERS

LISTS = ("contexts", "context_ids", "gold_chunk_ids")
Placed = tuple[str, Row]  # a row, and where it stands
PARQUET_ROWS = 1_000  # held at a time
ENTRIES = ("results", "test_cases", "data", "samples")  # where a JSON object keeps its rows


def read_cases(source: Any, names: Mapping[str, str] | None = None) -> list[Case]:
    """The cases of a file, a DataFrame, a `datasets.Dataset` or a list of dicts, in their order.

    Layouts are known by their fields (see `layouts`). names: for our field, the one that holds it, with dots into
    objects: `{"question": "q", "answer": "out.text"}`. A row without id is numbered: by its line, from 1. An answer
    whose system is not named has the name of the file. Raises InputError naming file, line and field at the first row
    that does not fit, or if there is none.
    """
    placed = list(read_rows(source))
    if not placed:
        raise InputError(f"{_name(source)}: no rows")
    with locate(placed[0][0]):
        layout = find_layout([name for name, value in placed[0][1].items() if value is not None], names or {})
    system = Path(source).stem if isinstance(source, (str, Path)) else "answer"
    rows = _grouped(placed, layout) if layout.by_passage else placed
    cases: list[Case] = []
    for place, row in rows:
        with locate(place):
            cases.append(_case(row, layout, _number(place), system))
    return cases


def _number(place: str) -> str:
    """The number of a line or row, with which every place ends."""
    return re.split(r"[ :]", place)[-1]


def read_rows(source: Any) -> Iterator[Placed]:
    """The rows of a file or of what holds dicts, as they are, each with its place; one after the other where it can be.

    Raises InputError for a file that cannot be read, naming the line where there is one.
    """
    if not isinstance(source, (str, Path)):
        return _records(source)
    path = Path(source)
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv", ".parquet"):
        return _table(path, kind)
    return _json(path) if kind == ".json" else ((f"{path}:{number}", row) for number, row in iter_jsonl(path))


def _name(source: Any) -> str:
    return str(source) if isinstance(source, (str, Path)) else type(source).__name__


def _records(source: Any) -> Iterator[Placed]:
    """Of a DataFrame, or of what gives dicts."""
    rows: Iterable[Any] = source.to_dict("records") if hasattr(source, "iterrows") else source
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputError(f"row {number}: must be a dict, found {type(row).__name__}")
        yield f"row {number}", {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A value as JSON has it: NaN is none, an array a list."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and math.isnan(value) else value


def _json(path: Path) -> Iterator[Placed]:
    text = path.read_bytes()[:1000].lstrip() if path.is_file() else b""
    content = read_json(path, list if text.removeprefix(b"\xef\xbb\xbf").startswith(b"[") else dict)
    if isinstance(content, dict):
        lists = [content[name] for name in ENTRIES if isinstance(content.get(name), list)]
        if not lists:
            raise InputError(f"{path}: a JSON object must hold its rows in one of {', '.join(ENTRIES)}")
        content = lists[0]
    for number, row in enumerate(content, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {number}: expected a JSON object, found {type(row).__name__}")
        yield f"{path}: row {number}", row


def _table(path: Path, kind: str) -> Iterator[Placed]:
    """Rows of a CSV or TSV file, whose places are lines, or of a Parquet file."""
    try:
        if kind == ".parquet":
            with needed("pyarrow", f"{path}: reading Parquet"):
                import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as table:  # a part at a time: rows of one document repeat it
                rows = chain.from_iterable(part.to_pylist() for part in table.iter_batches(PARQUET_ROWS))
                yield from ((f"{path}: row {number}", row) for number, row in enumerate(rows, 1))
            return
        import csv

        csv.field_size_limit(1 << 30)
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter="\t" if kind == ".tsv" else ",", strict=True)
            line = 2
            for row in reader:
                place, line = f"{path}:{line}", reader.line_num + 1
                if None in row or None in row.values():
                    raise InputError(f"{place}: has another number of columns than the first line")
                yield place, {name: value if value != "" else None for name, value in row.items()}
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error  # csv's or pyarrow's own


def _grouped(placed: Sequence[Placed], layout: Layout) -> Iterator[Placed]:
    """A row for each answer, with the passages of all its rows; runs of a question from the second on get their number.

    Rows of one answer stand together. The first answer that is there counts, as in open-rag-eval's own loader.
    """
    id_, run, text, chunk, answer = (layout.fields[n] for n in ("id", "run", "contexts", "context_ids", "answer"))

    def key(entry: Placed) -> tuple[Any, Any]:
        row = entry[1]
        return row.get(id_) or row.get(layout.fields["question"]), row.get(run)

    seen: dict[Any, int] = {}
    for (case, _), entries in groupby(placed, key):
        group = list(entries)
        first, rows = group[0], [row for _, row in group]
        seen[case] = seen.get(case, 0) + 1
        given = next((row[answer] for row in rows if row.get(answer)), None)
        passages = {
            text: [row[text] for row in rows if row.get(text)],
            chunk: [str(row[chunk]) for row in rows if row.get(chunk) is not None],
        }
        name = str(first[1][id_]) if first[1].get(id_) is not None else _number(first[0])
        yield first[0], {**first[1], **passages, answer: given, id_: f"{name}#{seen[case]}" if seen[case] > 1 else name}


def _case(row: Row, layout: Layout, number: str, system: str) -> Case:
    values = {ours: _at(row, theirs) for ours, theirs in layout.fields.items()}
    question = values["question"]
    if question is None:
        raise InputError(missing("question", row))
    id_ = number if values["id"] is None else values["id"]
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise InputError(f"field '{layout.fields['id']}': must be a string or a whole number")
    contexts, ids = _chunks(layout.fields["contexts"], values["contexts"])
    named = values["system"]
    return Case(
        str(id_),
        _text(layout.fields["question"], question),
        _answers(row, values, layout, system if named is None else str(named)),
        contexts,
        _truth(layout.fields["truth"], values["truth"]),
        None if values.get("reference") is None else _text("reference", values["reference"]),
        None if values["slice_tag"] is None else str(values["slice_tag"]),
        _texts(layout.fields["context_ids"], values["context_ids"]) or ids,
        _texts(layout.fields["gold_chunk_ids"], values["gold_chunk_ids"]),
        _seconds(layout.fields["latency_s"], values["latency_s"]),
    )


def _at(row: Row, path: str) -> Any:
    """The value under a name, or along names with dots between them; None where there is none."""
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _answers(row: Row, values: Row, layout: Layout, system: str) -> dict[str, str]:
    """Text by system. One that is null is blank: its system gave none."""
    name, several = layout.fields["answer"], values.get("answers")
    if several is None:
        if name not in row and _at(row, name) is None and "." not in name:
            raise InputError(missing("answer", row))
        return {system: "" if values["answer"] is None else _text(name, values["answer"])}
    if isinstance(several, list):
        several = {LETTERS[at] if at < len(LETTERS) else str(at): answer for at, answer in enumerate(several)}
    if not isinstance(several, Mapping) or not all(isinstance(a, str) or a is None for a in several.values()):
        raise InputError("field 'answers': must be a list of strings, or an object of them by system")
    if not 1 <= len(several) <= len(LETTERS):
        raise InputError(f"field 'answers': has {len(several)}, must have 1 to {len(LETTERS)}")
    return {str(of): answer or "" for of, answer in several.items()}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"field '{name}' must be str, found {type(value).__name__}")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts, which a table's cell holds as JSON or as Python prints it; another text is the only one."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = _cell(value)
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise InputError(f"field '{name}' must be a list of texts, found {type(value).__name__}")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise InputError(f"field '{name}' must hold texts, found {type(item).__name__}")
    return tuple(map(str, value))


def _cell(text: str) -> Any:
    if text.lstrip().startswith("["):
        for read in (json.loads, ast.literal_eval):  # what pandas writes is no JSON
            try:
                value = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, list):
                return value
    return [text]


def _chunks(name: str, value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts and ids of retrieved chunks: texts, or objects with a `text` and perhaps a `doc_id` (RAGChecker's)."""
    value = _cell(value) if isinstance(value, str) else value
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        texts = [item.get("text") for item in value]
        ids = [item.get("doc_id", item.get("id")) for item in value]
        return _texts(f"{name}.text", texts), _texts(f"{name}.doc_id", ids) if None not in ids else ()
    return _texts(name, value), ()


def _truth(name: str, value: Any) -> str | None:
    """The true answer; of several ways to write it the first."""
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return None if value is None else _text(name, value)


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"field '{name}' must be a number of at least 0, found {value!r}")
    return seconds
