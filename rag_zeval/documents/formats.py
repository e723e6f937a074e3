"""Reads the text in a file of a known format, and notes what is missing from the text.

Bytes are decoded by their byte order mark (BOM), as UTF-8, or in the encoding that a page declares. A byte that cannot
be decoded is an error and is never replaced.
"""

import codecs
import io
import logging
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from rag_zeval.documents.docx import word_text
from rag_zeval.documents.html import page_text
from rag_zeval.errors import InputError
from rag_zeval.files import MARKS

Doubts = list[str]  # a line for each thing that is missing from a text, or may be
SHOWN = 10  # page numbers in a doubt
NOT_READ = {"/FreeText": "notes, which are not read", "/Widget": "form fields, which are not read"}  # annotations
NO_LETTERS = "a font that does not say which letters it shows, and may be read wrong"

HEAD = 16_384  # bytes of a page that are searched for its declaration
_DECLARED = re.compile(rb"<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
# What browsers read instead of a declared encoding, because pages often declare a subset of the one they use.
WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


def _plain(content: bytes) -> tuple[str, Doubts]:
    return decode(content), []


def _html(content: bytes) -> tuple[str, Doubts]:
    return page_text(decode(content, declares=True)), []


def decode(content: bytes, declares: bool = False) -> str:
    """Return the text of a file, with "\\n" as the only line end.

    declares: whether the file may declare its encoding, as web pages do. Raises InputError if the bytes cannot be
    decoded, and for NUL bytes, which no text holds.
    """
    text = _decoded(content, declares).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise InputError("holds NUL bytes: it is not text, or UTF-16 without a byte order mark; save it as UTF-8")
    return text


def _decoded(content: bytes, declares: bool) -> str:
    marked = [encoding for mark, encoding in MARKS.items() if content.startswith(mark)]
    encodings, declaration = marked[:1] or ["utf-8"], ""
    if declares and not marked and (found := _DECLARED.search(content, 0, HEAD)):
        declaration, label = found[0].decode("latin-1"), found[1].decode("latin-1")
        # Valid UTF-8 is read as that, whatever the page declares. But ASCII bytes may be in an encoding such as UTF-7.
        encodings.insert(0 if content.isascii() else 1, _wider(label))
    encodings = [*dict.fromkeys(encodings)]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
            text.encode()  # fails for half a character, which some encodings can spell
        except (UnicodeError, LookupError):
            continue
        if declaration in text:  # otherwise the declaration is not in this encoding
            return text
    raise InputError(f"is not in {', nor in '.join(encodings)}: save it as UTF-8")


def _wider(label: str) -> str:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return label
    return WIDER.get(name, name)


def _pdf(content: bytes) -> tuple[str, Doubts]:
    import pypdf
    import pypdf.filters

    told = io.StringIO()  # pypdf's warnings, one a line; they become doubts
    logger = logging.getLogger("pypdf")
    logger.propagate = False
    logger.handlers = [logging.StreamHandler(told)]
    filters: Any = pypdf.filters
    filters.decompress = _watched(filters.decompress)
    reader: Any = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InputError("needs a password")
    texts: list[str] = []
    seen: dict[str, list[int]] = {}  # numbers of the pages with each fault
    for number, page in enumerate(reader.pages, 1):
        try:
            _lend_fonts(page)
            text = _whole_letters(page.extract_text())
            for fault in [*_not_read(page), *(["no text, and may be a scan"] if not text.strip() else [])]:
                seen.setdefault(fault, []).append(number)
        except MemoryError:
            raise
        except Exception as error:  # for a broken page, pypdf may raise anything
            raise InputError(f"page {number} cannot be read: {type(error).__name__}: {error}") from error
        texts.append(text)
    doubts = [f"{_pages(numbers, len(texts))} {fault}" for fault, numbers in seen.items()]
    pages = _dictionary(reader.root_object, "/Pages")
    if "/Count" not in pages or pages["/Count"] != len(texts):  # `get` may return a reference, which equals no number
        doubts.append(f"{len(texts)} pages were found, but the file counts {pages.get('/Count')}")
    if unknown := sum(text.count("\ufffd") for text in texts):
        doubts.append(f"{unknown} letters could not be read")
    if problems := told.getvalue().splitlines():
        doubts.append(f"pypdf reported {len(problems)} problems, and text may be missing; the first: {problems[0]}")
    # One line end between pages: a sentence may continue on the next page, and the end of a paragraph is not marked.
    return "\n".join(texts), doubts


def _watched(decompress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Wrap pypdf's decompression, so that a stream that is cut off logs a warning. pypdf alone logs nothing."""

    def watched(data: bytes) -> bytes:
        inflated = decompress(data)
        packed = zlib.decompressobj()
        with suppress(zlib.error):
            packed.decompress(data)
        if not packed.eof:
            logging.getLogger("pypdf").warning("a deflated stream is cut off or damaged")
        return inflated

    return watched


def _lend_fonts(page: Any) -> None:
    """Give the page's resources to drawn forms that have none. Otherwise pypdf finds no text in them."""
    from pypdf.generic import NameObject

    holders, seen = [page], set()
    while holders:
        resources = _dictionary(holders.pop(), "/Resources")
        drawn = _dictionary(resources, "/XObject")
        for form in (_dictionary(drawn, name) for name in drawn):
            if form.get("/Subtype") == "/Form" and id(form) not in seen:
                seen.add(id(form))
                form.setdefault(NameObject("/Resources"), resources)
                holders.append(form)


def _dictionary(holder: Any, key: Any) -> Any:
    """Return the dictionary at a key of a dictionary, or at an index of a list. It may be a reference.

    Returns an empty dictionary if there is none.
    """
    found = holder[key].get_object() if isinstance(holder, list) or key in holder else None
    return found if isinstance(found, dict) else {}


def _whole_letters(text: str) -> str:
    """Return the text with U+FFFD in place of half characters, which fonts may produce."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _not_read(page: Any) -> Iterator[str]:
    """Yield what of a page is missing from pypdf's text, or may be wrong in it."""
    notes = page["/Annots"].get_object() if "/Annots" in page else []
    kinds = {_dictionary(notes, at).get("/Subtype") for at in range(len(notes))} if isinstance(notes, list) else set()
    yield from (NOT_READ[kind] for kind in NOT_READ if kind in kinds)
    fonts = _dictionary(_dictionary(page, "/Resources"), "/Font")
    for font in (_dictionary(fonts, name) for name in fonts):
        if "/ToUnicode" not in font and font.get("/Encoding") in ("/Identity-H", "/Identity-V"):
            yield NO_LETTERS
            break


def _pages(numbers: Sequence[int], of: int) -> str:
    listed = ", ".join(map(str, numbers[:SHOWN])) + ", ..." * (len(numbers) > SHOWN)
    return f"page{'s' * (len(numbers) > 1)} {listed} of {of} ha{'ve' if len(numbers) > 1 else 's'}"


SUFFIXES: dict[str, Callable[[bytes], tuple[str, Doubts]]] = {
    ".txt": _plain,
    ".md": _plain,
    ".markdown": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": word_text,
}
KNOWN = f"with one of {', '.join(SUFFIXES)}"
