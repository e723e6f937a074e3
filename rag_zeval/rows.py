"""The file of a run's rows: a single process appends to it, and a kill at any moment loses no complete row."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, ValuesView
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import TypeVar

from rag_zeval.errors import InputError, unix
from rag_zeval.files import Row, check_fields, check_regular, json_line, locate, naming, parse_row, write_chunks

with unix():
    import fcntl

ROW_START = b'{"id": "'  # the beginning of each of our lines: it tells a torn line from a foreign file
T = TypeVar("T")  # what a row is turned into


class StoredRows(Mapping[str, T]):
    """The rows of a JSONL file by their "id". A row is read when it is looked up, so even a long file fits in memory.

    read: turns a row into the value of a lookup. `values` reads the file in one pass, and opens it only for that time.
    size: bytes of all whole rows, each counted with its line break, even if the last one lacks it. torn: what a kill
    left after them: a last line that has no line break and is no row. Raises InputError if another line is no row, or
    for a duplicate id.
    """

    def __init__(self, path: Path, read: Callable[[Row], T]):
        self._path, self._read = path, read
        self._starts: dict[str, int] = {}
        self.size = 0
        self.torn = b""
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                self._find(f"{path}:{number}", line)

    def _find(self, where: str, line: bytes) -> None:
        whole = line.endswith(b"\n")
        try:
            with locate(where):
                row = parse_row(line)
                check_fields(row, {"id": str})
                if row["id"] in self._starts:
                    raise InputError(f"duplicate id {row['id']!r}")
        except InputError:
            if whole:
                raise
            self.torn = line
        else:
            self.add(row["id"], len(line) + (not whole))

    def add(self, id_: str, length: int) -> None:
        """Note a row that was written after the others. length: its bytes, with the line break."""
        self._starts[id_] = self.size
        self.size += length

    def lines(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield the lines of these rows as they are in the file, with their line breaks."""
        with open(self._path, "rb") as file:
            for id_ in ids:
                file.seek(self._starts[id_])
                yield file.readline().removesuffix(b"\n") + b"\n"

    def _parse(self, id_: str, line: bytes) -> T:
        with locate(f"{self._path}: row {id_!r}"):
            row = parse_row(line)
            if row.get("id") != id_:  # never another row's scores
                raise InputError("has moved; another program wrote into this file")
            return self._read(row)

    def __getitem__(self, id_: str) -> T:
        (line,) = self.lines([id_])
        return self._parse(id_, line)

    def values(self) -> ValuesView[T]:
        return _Values(self)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._starts

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)


class _Values(ValuesView[T]):
    _mapping: StoredRows[T]

    def __iter__(self) -> Iterator[T]:
        rows = self._mapping
        return map(rows._parse, rows, rows.lines(rows))


class RowWriter:
    """Writes a run's finished rows to a JSONL file, each with a string "id". `done` holds the rows already written.

    One process writes the file at a time: it is locked until it is closed or the process ends. Opening it changes no
    row, so a caller that finds foreign rows in `done` can leave them as they are. `settle` prepares the file for new
    rows; the first `append` calls it.

    Raises InputError, and leaves the file as it was, if it is no regular file or another process is writing it. It also
    does so if a complete line is not a row, for a duplicate id, and if a torn end is not the beginning of a row.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._settled = False
        check_regular(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._is_new = not self.path.exists()
        self._file = _open_locked(self.path)
        try:
            self.done = StoredRows(self.path, dict)
            if not (self.done.torn.startswith(ROW_START) or ROW_START.startswith(self.done.torn)):
                raise InputError(f"{self.path}: is not a file of result rows; choose another")
        except BaseException:
            self._file.close()
            raise

    def settle(self, again: Collection[str] = (), instead: Iterable[Row] = ()) -> None:
        """Remove the rows with the ids `again`, which are to be scored again, and a torn last line.

        instead: rows that replace the removed ones. Their ids may be among those.
        A kill at any moment loses none of the other rows: a second file (`.part`) replaces this one once it is whole.
        """
        self._settled, again = True, set(again)
        if again or self.path.stat().st_size != self.done.size:
            kept = self.done.lines(id_ for id_ in self.done if id_ not in again)
            part = self.path.with_name(f"{self.path.name}.part")  # under the lock, so it may replace what a kill left
            write_chunks(self.path.resolve(), chain(kept, map(json_line, instead)), part)
            self._file.close()
            self._file = _open_locked(self.path)
            self.done = StoredRows(self.path, dict)

    def append(self, row: Row) -> None:
        """Write one row and hand it to the operating system. Raises ValueError for a duplicate id.

        Raises OSError, naming the file, if the disk is full; then nothing of the row is left in the file.
        """
        if row["id"] in self.done:
            raise ValueError(f"row {row['id']!r} has already been written")
        if not self._settled:
            self.settle()
        line = json_line({"id": row["id"], **row})
        try:
            self._write(line)
        except BaseException:
            self._file.truncate(self.done.size)
            raise
        self.done.add(row["id"], len(line))

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        with naming(self.path):
            while left:
                left = left[self._file.write(left) :]

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, fault: type[BaseException] | None, *_: object) -> None:
        if fault is not None and self._is_new and self.path.stat().st_size == 0:
            self.path.unlink()  # a command that could not begin leaves no file
        self._file.close()


def _open_locked(path: Path) -> FileIO:
    """Open the file for appending, and lock it. Raises InputError if another process has locked it.

    If a run that ended meanwhile has replaced the file, the new one is opened.
    """
    while True:
        file = open(path, "ab", buffering=0)  # noqa: SIM115 (closed by who gets it)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InputError(f"{path}: another run is writing this file") from error
        if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            return file
        file.close()
