"""JSON files that commands are given or left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError


def read_json(path: Path, kind: type = dict) -> Any:
    """The content of a file that holds one object (or, with `kind=list`, one list).

    Raises InputError naming the file, and the line of what is no JSON.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, kind):
        wanted = "list" if kind is list else "object"
        raise InputError(f"{path}: expected a JSON {wanted}, found {type(content).__name__}")
    return content
