"""Reads text, Markdown, HTML, PDF and Word files as plain text, and notes what could not be read."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag_zeval.documents.bounded import read_files
from rag_zeval.documents.formats import KNOWN, SUFFIXES
from rag_zeval.errors import InputError, needed
from rag_zeval.text import one_line


@dataclass(frozen=True)
class Document:
    """The text of a file. name: the file's name, or its path below the given folder."""

    name: str
    text: str


@dataclass(frozen=True)
class Reading:
    """The documents that were read, and what was not read.

    left_out: for each file or folder of which nothing was read, by name, the reason.
    doubts: by a document's name, what is missing from its text, or may be missing or wrong.
    other_kinds: for each suffix that cannot be read, the number of files.
    """

    documents: list[Document] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)
    other_kinds: Counter[str] = field(default_factory=Counter)

    def unread(self) -> Iterator[str]:
        """Yield a message of one line for each thing that was not read."""
        for name, reason in self.left_out.items():
            yield f"left out: {one_line(name)}: {reason}"
        for name, doubts in self.doubts.items():
            yield from (f"read in part: {one_line(name)}: {doubt}" for doubt in doubts)
        if self.other_kinds:
            kinds = ", ".join(f"{one_line(kind) or 'without suffix'} {n}" for kind, n in self.other_kinds.most_common())
            yield f"left out: files of other kinds: {kinds}"

    def leave_out(self, name: str, path: Path, reason: str) -> None:
        """Note a file or folder by its name, or by its path if something else of that name was left out."""
        self.left_out[str(path) if name in self.left_out else name] = reason


def read_documents(paths: Sequence[Path]) -> Reading:
    """Read the documents in these files and folders, and note what was not read.

    All files below a folder with a suffix of SUFFIXES are read in the order of their names, except hidden ones.
    Links that lead out of the folder are not followed. A file is left out if reading it takes too long or too much
    memory (see `bounded`), if it cannot be read in its format, if it holds no text (a scan), or if another file with
    the same text was read before.

    Raises InputError for a path that does not exist, a given file with another suffix, a file that is given twice, and
    two documents with the same name. Also raises it if no document has text, or if pypdf is needed but not installed.
    """
    reading = Reading()
    files: dict[str, Path] = {}
    places: set[tuple[str, str]] = set()  # folder without links, and name
    for name, path in _files(paths, reading):
        place = os.path.realpath(path.parent), path.name
        if place in places:
            raise InputError(f"{path}: is in two of the given paths; remove one of them")
        places.add(place)
        if name in files:
            raise InputError(f"{path}: has the same name '{name}' as {files[name]}; give the folder that contains both")
        files[name] = path
    kinds = [path.suffix.lower() for path in files.values()]
    if ".pdf" in kinds:
        with needed("pypdf", "a PDF"):
            import pypdf  # noqa: F401
    outcomes = read_files(zip(map(os.path.realpath, files.values()), kinds, strict=True))
    names: dict[str, str] = {}  # by text
    for (name, path), outcome in zip(files.items(), outcomes, strict=True):
        reason = outcome.get("left_out")
        if reason is None and (first := names.setdefault(outcome["text"], name)) != name:
            reason = f"has the same text as {one_line(first)}"
        if reason is not None:
            reading.leave_out(name, path, reason)
            continue
        reading.documents.append(Document(name, outcome["text"]))
        if outcome["doubts"]:
            reading.doubts[name] = outcome["doubts"]
    if not reading.documents:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in reading.left_out.items())
        raise InputError(f"no document with text ({reasons or 'no file ' + KNOWN})")
    return reading


def _files(paths: Sequence[Path], reading: Reading) -> Iterator[tuple[str, Path]]:
    for given in paths:
        if given.is_dir():
            yield from _below(given, reading)
        elif not given.exists():
            raise InputError(f"{given}: no such file or folder")
        elif not given.is_file():
            raise InputError(f"{given}: is neither a file nor a folder")
        elif given.suffix.lower() not in SUFFIXES:
            raise InputError(f"{given}: cannot be read as text; documents are files {KNOWN}")
        else:
            yield given.name, given


def _below(folder: Path, reading: Reading) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder and of all folders below it, in the order of their names. Note what is left out."""
    root, found = Path(os.path.realpath(folder)), []

    def leave_out(path: Path, reason: str) -> None:
        reading.leave_out(path.relative_to(folder).as_posix() if path != folder else str(folder), path, reason)

    def cannot_open(error: OSError) -> None:
        leave_out(Path(error.filename), f"cannot be opened: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=cannot_open):  # does not follow links to folders
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in [*links, *(name for name in names if not name.startswith("."))]:
            path = Path(place, name)
            if name not in links and path.suffix.lower() not in SUFFIXES:
                reading.other_kinds[path.suffix.lower()] += 1
            elif reason := _why_not(path, root):
                leave_out(path, reason)
            else:
                found.append((path.relative_to(folder), path))
    for relative, path in sorted(found):
        yield relative.as_posix(), path


def _why_not(path: Path, root: Path) -> str | None:
    """Return the reason why a path below the folder `root` must not be opened, or None if it may be opened."""
    if path.is_symlink():
        if not Path(os.path.realpath(path)).is_relative_to(root):
            return f"is a link to a {'folder' if os.path.isdir(path) else 'file'} outside the folder"
        if not os.path.exists(path):
            return "is a link to nothing"
        if os.path.isdir(path):
            return "is a link to a folder: the files there are read where they are, unless they are hidden"
    return None if os.path.isfile(path) else "is not a regular file, or cannot be opened"
