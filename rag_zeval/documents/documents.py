"""Documents as plain text: what files of text, Markdown, HTML, PDF and Word hold, and what of it could not be read."""

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
    """A text by its name: the file's, or its path below the folder that was given."""

    name: str
    text: str


@dataclass(frozen=True)
class Reading:
    """What was read, and what was not.

    left_out: why nothing of a file or folder was read, by its name. doubts: by a document's name, what of the file is
    not in its text, or may not be. other_kinds: how many files had a suffix that is not read.
    """

    documents: list[Document] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)
    other_kinds: Counter[str] = field(default_factory=Counter)

    def unread(self) -> Iterator[str]:
        """A line for people on each thing that was not read."""
        for name, reason in self.left_out.items():
            yield f"left out: {one_line(name)}: {reason}"
        for name, doubts in self.doubts.items():
            yield from (f"read in part: {one_line(name)}: {doubt}" for doubt in doubts)
        if self.other_kinds:
            kinds = ", ".join(f"{one_line(kind) or 'without suffix'} {n}" for kind, n in self.other_kinds.most_common())
            yield f"left out: files of other kinds: {kinds}"

    def leave_out(self, path: Path, folder: Path, reason: str) -> None:
        """Note what stands below a folder; by its whole path if another folder has something of that name."""
        name = path.relative_to(folder).as_posix()
        self.left_out[str(path) if name in self.left_out else name] = reason


def read_documents(paths: Sequence[Path]) -> Reading:
    """The documents in these files and folders, and what was not read of them.

    A folder stands for all files below it with a suffix of SUFFIXES, in the order of their names, but for hidden ones.
    No link is followed out of it. A file that takes too long or too much memory to read (`bounded`), cannot be read as
    what it is, or holds no text (a scan), is left out.
    Raises InputError for a path that is not there, a named file of another kind, two documents of one name, no text at
    all, and a reader that is not installed.
    """
    reading = Reading()
    files: dict[str, Path] = {}
    for name, path in _files(paths, reading):
        if name in files:
            raise InputError(f"{path}: has the same name '{name}' as {files[name]}; give the folder that contains both")
        files[name] = path
    kinds = [path.suffix.lower() for path in files.values()]
    if ".pdf" in kinds:
        with needed("pypdf", "a PDF"):
            import pypdf  # noqa: F401
    outcomes = read_files(zip(map(os.path.realpath, files.values()), kinds, strict=True))
    for name, outcome in zip(files, outcomes, strict=True):
        if (reason := outcome.get("left_out")) is not None:
            reading.left_out[name] = reason
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
    """The files of a folder and all folders below it, in the order of their names; what is left out is noted."""
    root, found = Path(os.path.realpath(folder)), []

    def cannot_open(error: OSError) -> None:
        reading.leave_out(Path(error.filename), folder, f"cannot be opened: {error.strerror}")

    for place, folders, names in os.walk(folder, onerror=cannot_open):  # links to folders are not walked
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in [*links, *(name for name in names if not name.startswith("."))]:
            path = Path(place, name)
            if name not in links and path.suffix.lower() not in SUFFIXES:
                reading.other_kinds[path.suffix.lower()] += 1
            elif reason := _why_not(path, root):
                reading.leave_out(path, folder, reason)
            else:
                found.append((path.relative_to(folder), path))
    for relative, path in sorted(found):
        yield relative.as_posix(), path


def _why_not(path: Path, root: Path) -> str | None:
    """Why what stands below a folder is not to be opened, None if it is."""
    if path.is_symlink():
        if not Path(os.path.realpath(path)).is_relative_to(root):
            return f"is a link to a {'folder' if os.path.isdir(path) else 'file'} outside the folder"
        if not os.path.exists(path):
            return "is a link to nothing"
        if os.path.isdir(path):
            return "is a link to a folder: the files there are read where they are, unless they are hidden"
    return None if os.path.isfile(path) else "is not a regular file, or cannot be opened"
