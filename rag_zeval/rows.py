"""The rows of a run: one file that a single process appends to, and that a kill at any moment leaves whole."""

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

ROW_START = b'{"id": "'  # how every line of ours begins, so that a torn one is known from another's file
T = TypeVar("T")  # what is made of a row


class StoredRows(Mapping[str, T]):
    """The rows of a JSONL file by their "id", read from the file when they are looked at: a long file fits in memory.

    read: what is made of a row then. All `values` are one pass over the file, which is open only while it is read.
    size: bytes of whole rows, each with its end of line, which the last may lack. torn: what follows them, as a kill
    leaves it: a last line without its end that is no row. Raises InputError when another line is no row, or an id
    stands twice.
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
        """Take note of a row written behind the others, of `length` bytes with its end of line."""
        self._starts[id_] = self.size
        self.size += length

    def lines(self, ids: Iterable[str]) -> Iterator[bytes]:
        """The lines of these rows as they stand in the file, with their ends."""
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
    """The JSONL of a run's finished rows, each with a string "id"; a restart finds in `done` what is there already.

    One process writes it at a time: it is locked until it is closed or the process ends. Opening it changes no row: who
    finds rows of something else in `done` leaves them as they are. `settle` makes it ready to go on, and is what the
    first `append` does.

    Raises InputError, with the file as it was, when it is no regular file, another process is writing it, a complete
    line is not a row, an id stands twice, or it ends in something else than a row that a kill tore.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._settled = False
        check_regular(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(self.path)
        try:
            self.done = StoredRows(self.path, dict)
            if not (self.done.torn.startswith(ROW_START) or ROW_START.startswith(self.done.torn)):
                raise InputError(f"{self.path}: is not a file of result rows; choose another")
        except BaseException:
            self._file.close()
            raise

    def settle(self, again: Collection[str] = (), instead: Row | None = None) -> None:
        """Take out the rows of the ids `again`, which are to be done again, and a torn last line.

        instead: a row that takes the place of those. Its id may be among them.
        A kill at any moment leaves all rows that stay: a second file (`.part`) takes the place of this one when whole.
        """
        self._settled, again = True, set(again)
        if again or self.path.stat().st_size != self.done.size:
            kept = self.done.lines(id_ for id_ in self.done if id_ not in again)
            part = self.path.with_name(f"{self.path.name}.part")  # under the lock: one that a kill left is taken over
            write_chunks(self.path.resolve(), chain(kept, [json_line(instead)] if instead else []), part)
            self._file.close()
            self._file = _open_locked(self.path)
            self.done = StoredRows(self.path, dict)

    def append(self, row: Row) -> None:
        """Write one row and hand it to the operating system. Raises ValueError if its id is there already.

        Raises OSError, naming the file, when the disk is full; nothing of the row is then left.
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

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def _open_locked(path: Path) -> FileIO:
    """The file, to append to, if no other process has it open so. A run that ended meanwhile may have replaced it."""
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
