"""Paths into a row, such as `outputs.0.text`, and the names of numbered columns."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rag_zeval.cases.names import CHUNK_TEXT, same_name
from rag_zeval.cases.printed import unfolded
from rag_zeval.files import MOST_DIGITS
from rag_zeval.text import shell_word

ABSENT = object()  # stands for a field that a row lacks; null is a value
EMPTY: list[Any] = []  # what a path finds inside an empty list
MARKS = " _-.[]/"  # stand around the number in a column's name, as in docs[0].text
LAST_NUMBER = re.compile(r"[0-9]+(?=[^0-9]*$)")


def at_path(value: Any, path: str) -> Any:
    """Return the value of a column, or the value at the end of a path. None if there is none.

    A path is written as `output.text`, `outputs.0.text` or, from the end of a list, `messages.-1.content`. On a list,
    `docs.body` takes the `body` of each item; from lists in lists it makes one list. `context_*` gives the list of
    `context_1`, `context_2` and so on, also inside an object: `fields.context_*`. A path also leads into texts that
    print a list or object. Names may have dots.
    """
    found = _found(value, path)
    return None if found is ABSENT else found


def has_path(value: Any, path: str) -> bool:
    """Whether a path leads to something, which may be null."""
    return _found(value, path) is not ABSENT


def _found(value: Any, path: str) -> Any:
    if isinstance(value, dict) and path in value:  # as of almost all columns
        return value[path]
    found = _inside(value, path)
    return ABSENT if found is EMPTY else found


def _inside(value: Any, path: str) -> Any:
    if not path:
        return value
    value = unfolded(value)
    if isinstance(value, Mapping):
        for name, rest in _beginnings(path):
            if name in value:
                found = _inside(value[name], rest)
            else:
                found = _all_or_absent([_found(value[one], rest) for one in numbered(name, value)])
            if found is not ABSENT:
                return found
    if isinstance(value, list):
        first, _, rest = path.partition(".")
        if is_number(first.removeprefix("-")):
            return _inside(value[int(first)], rest) if -len(value) <= int(first) < len(value) else ABSENT
        found = _all_or_absent([_inside(item, path) for item in value if isinstance(item, Mapping)])
        if found is ABSENT:
            return ABSENT if value else EMPTY
        return [one for part in found for one in (part if isinstance(part, list) else [part])] or EMPTY
    return ABSENT


def _all_or_absent(found: list[Any]) -> Any:
    return found if found and ABSENT not in found else ABSENT


def _beginnings(path: str) -> Iterator[tuple[str, str]]:
    """Yield each way to split a path into a name and the rest of the path, the longest name first."""
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        yield ".".join(parts[:at]), ".".join(parts[at:])


def spelled(path: str, there: Iterable[str]) -> str:
    """Return a path with its column's name as the file writes it; the path itself if the file has no such column.

    Spaces around a name and the form of its accents (macOS writes them as characters of their own) make no difference.
    """
    columns = {same_name(column): column for column in there}
    for name, rest in _beginnings(path):
        if column := columns.get(same_name(name)):
            return f"{column}.{rest}" if rest else column
    return path


def option(field: str, column: str) -> str:
    """Return the command-line option that says that a column holds a field."""
    return f"--map {shell_word(f'{field}={column}')}"


def one_option(field: str, columns: Iterable[str]) -> str:
    """Return the options, one of which says that a column holds a field."""
    return " or ".join(option(field, column) for column in columns)


def numbered(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern such as `context_*` or `docs[*].text` matches, ordered by their numbers."""
    before, star, after = pattern.partition("*")
    if not star:
        return []
    long = (name for name in names if name.startswith(before) and name.endswith(after))
    numbers = {name: name[len(before) : len(name) - len(after)] for name in long}
    return sorted((name for name, number in numbers.items() if is_number(number)), key=lambda name: int(numbers[name]))


def is_number(digits: str) -> bool:
    return digits.isdecimal() and len(digits) <= MOST_DIGITS


def roots_of(path: str, there: Collection[str]) -> list[str]:
    """Return the columns in which a column name, a path or a pattern begins."""
    for name, _ in _beginnings(path):
        if found := [name] if name in there else numbered(name, there):
            return found
    return [path.partition(".")[0]]


def pattern_of(name: str) -> str:
    """Return a name with `*` for its last number. A name without a number is returned as it is."""
    return LAST_NUMBER.sub("*", name)


def stem_of(name: str) -> str:
    """Return what a column's name says without its number: `context` for `context_*`, `docs[*]` or `docs.*.text`."""
    stem, _, inner = name.partition("*")
    return stem.rstrip(MARKS) if inner.strip(MARKS) in ("", *CHUNK_TEXT) else name


def quoted_list(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
