"""Bytes as text: by their mark (BOM), as UTF-8, or in the encoding that a page declares. Nothing is replaced."""

from __future__ import annotations

import codecs
import re

from rag_zeval.files import MARKS

HEAD = 16_384  # bytes of a page in which its declaration is looked for
_DECLARED = re.compile(rb"<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*[\"']?\s*([\w:.-]+)", re.IGNORECASE)
# What browsers take a declared encoding for: it is often the smaller sibling of the one that was used.
WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


class Unreadable(Exception):
    """A file cannot be read as text, or not all of it; the message is the reason, in one line."""


def decode(content: bytes, declares: bool = False) -> str:
    """The text of a file, with "\\n" at the end of each line. declares: whether it may name its encoding, as pages do.

    Raises Unreadable if a byte has no meaning in the encoding, and for NUL bytes, which no text holds.
    """
    text = _decoded(content, declares).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise Unreadable("holds NUL bytes: it is not text, or UTF-16 without a byte order mark; save it as UTF-8")
    return text


def _decoded(content: bytes, declares: bool) -> str:
    marked = [encoding for mark, encoding in MARKS.items() if content.startswith(mark)]
    encodings, declaration = marked[:1] or ["utf-8"], ""
    if declares and not marked and (found := _DECLARED.search(content, 0, HEAD)):
        declaration, label = found[0].decode("latin-1"), found[1].decode("latin-1")
        # A page that is UTF-8 whatever it declares is read as that, but for encodings that write all with ASCII.
        encodings.insert(0 if content.isascii() else 1, _wider(label))
    encodings = [*dict.fromkeys(encodings)]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
            text.encode()  # half a character, which some encodings can spell
        except (UnicodeError, LookupError):
            continue
        if declaration in text:  # else it was declared in another encoding than this
            return text
    raise Unreadable(f"is not in {', nor in '.join(encodings)}: save it as UTF-8")


def _wider(label: str) -> str:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return label
    return WIDER.get(name, name)
