"""Reads rows from Python objects: frames, data sets, tables, and lists of dicts or objects."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Set
from os import PathLike
from typing import Any

from rag_zeval.cases.arrangements import rows_of
from rag_zeval.cases.names import unique_names
from rag_zeval.cases.row_files import PlacedRow
from rag_zeval.errors import InputError


def read_objects(source: Any, chosen: Mapping[str, str] | None = None) -> Iterator[PlacedRow]:
    """Yield the rows of a Python object, each with its place. A row that cannot be read is yielded as an InputError.

    source: a frame (pandas, polars), a `datasets.Dataset`, a pyarrow Table, or an iterable of dicts, pydantic models,
    dataclasses or named tuples. A dict is read as JSON is, by `rows_of`.
    chosen: the columns that the user chose, by field, see `rows_of`.

    Raises InputError for any other source, for duplicate column names, and for several splits.
    """
    for number, row in enumerate(_rows(source, chosen), 1):
        found = _fields(row)
        if number == 1:
            _check_no_source(row)
        if found is None:
            yield f"row {number}", InputError(f"must be a dict, found {type(row).__name__}")
        else:
            yield f"row {number}", {str(name): plain(value) for name, value in found.items()}


def _rows(source: Any, chosen: Mapping[str, str] | None) -> Iterable[Any]:
    if hasattr(source, "iterrows"):  # pandas
        if getattr(source.columns, "nlevels", 1) > 1:
            raise InputError("the frame's columns have several levels: flatten them to one name each")
        named = [name for name in source.index.names if name is not None and name not in source.columns]
        unique_names([*source.columns, *named])
        frame = source.reset_index(named) if named else source
        return list(frame.to_dict("records"))
    if hasattr(source, "iter_rows") and hasattr(source, "to_dicts"):  # polars
        return list(source.to_dicts())
    if hasattr(source, "to_pylist"):  # pyarrow
        unique_names(source.column_names)
        return list(source.to_pylist())
    if isinstance(source, Mapping):
        if source and all(hasattr(value, "column_names") for value in source.values()):
            first = next(iter(source))
            if len(source) == 1:
                only: Iterable[Any] = source[first]
                return only
            raise InputError(
                f"holds the splits {', '.join(map(str, source))}: give one of them, such as data[{first!r}]"
            )
        for value in source.values():
            _check_no_source(value, types=())
        return rows_of({str(name): plain(value) for name, value in source.items()}, type(source).__name__, chosen)
    if isinstance(source, (bytes, str)) or not isinstance(source, Iterable):
        raise InputError(f"expected a file, a frame, a data set or a list of dicts, found {type(source).__name__}")
    return source


def _check_no_source(value: Any, types: tuple[type, ...] = (str, PathLike)) -> None:
    """Raise InputError for a file or a frame in the place of a row. types: of files, and of their lines."""
    if isinstance(value, types) or hasattr(value, "iterrows"):
        raise InputError(
            f"holds {type(value).__name__}, not rows: give the path of one file, or one frame. To evaluate several "
            "systems, make one frame of their rows with a column 'system'"
        )


def _fields(row: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a dict, or of an object that can list its fields; otherwise None."""
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {one.name: getattr(row, one.name) for one in dataclasses.fields(row)}
    for method in ("model_dump", "_asdict", "dict"):  # pydantic, named tuples, pydantic before 2
        if callable(getattr(row, method, None)):
            found = getattr(row, method)()
            return found if isinstance(found, Mapping) else None
    return None


def plain(value: Any) -> Any:
    """Return a value in a form that JSON has, if it has one.

    Arrays and sets become lists. Chunks of LangChain and LlamaIndex become objects with "text" and "id".
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if kind in ("M", "m") and type(value).__module__ == "numpy":  # a time of nanoseconds would become a number
            value = value.astype(f"{kind}8[us]")
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, Set):
        return sorted((plain(one) for one in value), key=str)  # a set has no order of its own
    node = getattr(value, "node", value)
    text = getattr(node, "page_content", None)
    if text is None and callable(getattr(node, "get_content", None)):
        text = node.get_content()
    if isinstance(text, str):
        return {"text": text, "id": getattr(node, "node_id", None) or getattr(node, "id", None)}
    fields = _fields(value)
    return value if fields is None else {str(name): plain(one) for name, one in fields.items()}
