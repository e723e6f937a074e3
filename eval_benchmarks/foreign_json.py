"""JSON files that other programs or people wrote: what does not fit is named by file, place and field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InputError naming file and line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg} at column {error.colno}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def iter_json_list(path: Path, required: FieldTypes) -> Iterator[tuple[str, Row]]:
    """Yield `(place, row)` for each object of the list that a file holds; the place names file and row, from 0.

    Raises InputError naming the place and the first field of `required` that is missing or has another type.
    """
    rows = read_json(path)
    if not isinstance(rows, list):
        raise InputError(f"{path}:1: expected a JSON list, found {type(rows).__name__}")
    for number, row in enumerate(rows):
        place = f"{path}: row {number}"
        yield place, check_object(place, row, required)


def check_object(place: str, value: Any, required: FieldTypes) -> Row:
    """The value, if it is a JSON object with the fields `required`. Raises InputError naming place and field."""
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object, found {type(value).__name__}")
    try:
        check_fields(value, required)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return value
