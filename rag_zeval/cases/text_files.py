"""Opens files that may be packed, and reads texts in their encoding, which a message names if it is not known."""

import codecs
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rag_zeval.cases.encodings import better_encoding, likely_encoding
from rag_zeval.errors import InputError, needed
from rag_zeval.files import MARKS

HEAD = 1 << 16  # bytes by which a file's format and encoding are recognised
NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f]")
FORMATS = "CSV, JSON, Excel, Parquet or Feather"
NO_TABLE = f"is neither text nor a table that can be read; save it as {FORMATS}"


def opened(path: Path) -> Any:
    """Open a file for reading bytes, unpacked if gzip packed it."""
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if is_packed else path.open("rb")


@contextmanager
def named_faults(path: Path) -> Iterator[None]:
    """Turn an error of the system or of a library into an InputError of one line that names the file."""
    try:
        yield
    except (InputError, GeneratorExit):
        raise
    except (EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: cannot be unpacked: {error}") from error
    except Exception as error:
        lines = str(getattr(error, "strerror", None) or error).splitlines()
        raise InputError(f"{path}: cannot be read: {lines[0] if lines else type(error).__name__}") from error


def head_of(path: Path) -> bytes:
    with named_faults(path), opened(path) as file:
        head: bytes = file.read(HEAD)
    return head


def encoding_of(path: Path, head: bytes, given: str | None) -> str:
    """Return the encoding of a text file: the one that the user gave, or that of its byte order mark, or UTF-8.

    head: the file's beginning. Raises InputError for an encoding that does not exist, or that the file does not have.
    """
    marked = next((code for mark, code in MARKS.items() if head.startswith(mark)), None)
    if given:
        _check_given(path, given, marked)
    encoding = given or marked or "utf-8"
    if encoding == "utf-8" and head[1:2] == b"\0":  # UTF-16 without a byte order mark
        raise InputError(f"{path}: is not UTF-8 text{_named_encoding(path, encoding)}")
    return encoding


def _check_given(path: Path, given: str, marked: str | None) -> None:
    """Raise InputError for an encoding that does not exist, and for one that the file does not have.

    Almost any bytes are a text in cp1252 and the like. So UTF-8 could be read in them without an error.
    marked: the encoding of the file's byte order mark.
    """
    try:
        io.TextIOWrapper(io.BytesIO(), given)  # rejects what Python calls an encoding, but is none of texts: "hex"
    except LookupError as error:
        raise InputError(f"--encoding {given}: unknown encoding") from error
    found = (marked or "utf-8").removesuffix("-sig")
    if codecs.lookup(given).name.startswith(found):
        return
    right, wrong = (1, []) if marked else _lines_beyond_ascii(path)
    if right and not wrong:
        raise InputError(
            f"{path}: is {found.upper()} text: leave out --encoding {given}. If another file of the command needs "
            "it, save that file as UTF-8"
        )


def doubted_encoding(path: Path, given: str) -> str | None:
    """Return the encoding that a text file seems to have instead of the one that the user gave, or None."""
    return better_encoding(head_of(path), given)


@contextmanager
def opened_as_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open a file as text, with line ends as they are. Raises InputError, with advice, for text of another encoding."""
    with named_faults(path), opened(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:  # UTF-16 without a byte order mark is no UnicodeDecodeError
            if encoding in ("utf-8", "utf-8-sig"):
                right, wrong = _lines_beyond_ascii(path)
                if 0 < len(wrong) < right:  # such as one that was pasted from another file
                    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
                    told = f"this line{more} is not UTF-8 text, and the others are: correct it, or remove it"
                    raise InputError(f"{path}:{wrong[0]}: {told}") from error
            raise InputError(f"{path}: is not {encoding.upper()} text{_named_encoding(path, encoding)}") from error


def _lines_beyond_ascii(path: Path) -> tuple[int, list[int]]:
    """Return how many lines with letters beyond ASCII are UTF-8, and the numbers of those that are not."""
    right, wrong = 0, []
    with named_faults(path), opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                right += not line.isascii() and bool(line.decode())
            except UnicodeDecodeError:
                wrong.append(number)
    return right, wrong


def _named_encoding(path: Path, tried: str) -> str:
    """Return the end of an error message, which names the encoding that a file seems to have instead of `tried`.

    Raises InputError if the file is not text, or if charset-normalizer is not installed.
    """
    content = head_of(path)
    guesses = ["utf-8"]
    with needed("charset-normalizer", f"{path}: is not UTF-8 text; naming its encoding"):
        guesses += [likely] if (likely := likely_encoding(content)) else []
    if NO_TEXT.search(content.decode(guesses[-1], errors="replace")):
        raise InputError(f"{path}: {NO_TABLE}")
    failed = codecs.lookup(tried).name.removesuffix("-sig")
    named = next((one for one in guesses if codecs.lookup(one).name != failed and _decodes(content, one)), None)
    if named is None:
        return "; save it as UTF-8"
    saved = "" if named == "utf-8" else "save it as UTF-8, or "
    return (
        f"; it looks like {named}: {saved}give `rag-zeval evaluate` the option --encoding {named} if the texts then "
        "look right (--dry-run shows some)"
    )


def _decodes(content: bytes, encoding: str) -> bool:
    """Whether this is the beginning of a text in an encoding."""
    try:
        return not NO_TEXT.search(codecs.getincrementaldecoder(encoding)().decode(content))
    except UnicodeError:
        return False
