"""What several commands do with their arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_zeval.errors import InputError


def check_files(files: Sequence[tuple[str, Path | None]]) -> None:
    """Raises InputError if two of the files that a command names are one, or one to be written is no regular file."""
    from rag_zeval.files import check_regular

    seen: list[tuple[str, Path]] = []
    for name, path in files:
        if path is None:
            continue
        if name != "INPUT":
            check_regular(path)
        for other, before in seen:
            hard = path.exists() and before.exists() and path.samefile(before)
            if hard or os.path.realpath(path) == os.path.realpath(before):
                raise InputError(f"{name} {path} is the same file as {other}: name another file")
        seen.append((name, path))


def read_names(words: Sequence[str]) -> Mapping[str, str]:
    """`["question=q"]` as `{"question": "q"}`. Raises InputError for a word of another form."""
    names: dict[str, str] = {}
    for word in words:
        ours, sign, theirs = word.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--map {word}: write field=column, such as question=q")
        if ours in names:
            raise InputError(
                f"--map {word}: field '{ours}' already has the column '{names[ours]}'; remove one of the two"
            )
        names[ours] = theirs
    return names
