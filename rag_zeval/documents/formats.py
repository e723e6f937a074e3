"""The text in a file of a known format, and what of the file is not in it."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from typing import Any

from rag_zeval.documents.encoding import Unreadable, decode
from rag_zeval.documents.html import page_text

Doubts = list[str]  # what of a document is not in its text, or may not be; a line each
SHOWN = 10  # page numbers in a line
NOT_READ = {"/FreeText": "notes", "/Widget": "form fields"}  # kinds of annotations that show text of their own


def _plain(content: bytes) -> tuple[str, Doubts]:
    return decode(content), []


def _html(content: bytes) -> tuple[str, Doubts]:
    return page_text(decode(content, declares=True)), []


class _Told(logging.Handler):
    """Keeps what a library says of its troubles: the first line, and how many there were."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first, self.count = "", 0

    def emit(self, record: logging.LogRecord) -> None:
        self.first, self.count = self.first or record.getMessage(), self.count + 1


def _pdf(content: bytes) -> tuple[str, Doubts]:
    import pypdf

    told = _Told()
    logger = logging.getLogger("pypdf")
    logger.propagate = False  # its troubles are told as doubts, not printed
    logger.handlers = [told]
    reader = pypdf.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("needs a password")
    texts: list[str] = []
    unread: dict[str, list[int]] = {what: [] for what in NOT_READ.values()}
    for number, page in enumerate(reader.pages, 1):
        try:
            texts.append(page.extract_text())
            for what in _annotations(page):
                unread[what].append(number)
        except MemoryError:
            raise
        except Exception as error:  # a broken page makes pypdf raise whatever it likes
            raise Unreadable(f"page {number} cannot be read: {type(error).__name__}: {error}") from error
    doubts = [f"{_pages(numbers, texts)} {what}, which are not read" for what, numbers in unread.items() if numbers]
    empty = [number for number, text in enumerate(texts, 1) if not text.strip()]
    if empty and len(empty) < len(texts):
        doubts.append(f"{_pages(empty, texts)} no text and may be a scan")
    if told.count:
        doubts.append(f"pypdf repaired it ({told.count} times), and text may be missing: {told.first}")
    # One line end between two pages: a sentence may go on over them, and a paragraph's end is not to be seen.
    return "\n".join(texts), doubts


def _annotations(page: Any) -> set[str]:
    found = [item.get_object().get("/Subtype") for item in page.get("/Annots") or []]
    return {NOT_READ[kind] for kind in found if kind in NOT_READ}


def _pages(numbers: Sequence[int], pages: Sequence[str]) -> str:
    listed = ", ".join(map(str, numbers[:SHOWN])) + ", ..." * (len(numbers) > SHOWN)
    return f"page{'s' * (len(numbers) > 1)} {listed} of {len(pages)} ha{'ve' if len(numbers) > 1 else 's'}"


SUFFIXES: dict[str, Callable[[bytes], tuple[str, Doubts]]] = {
    ".txt": _plain,
    ".md": _plain,
    ".markdown": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
KNOWN = f"with one of {', '.join(SUFFIXES)}"
