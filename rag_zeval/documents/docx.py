"""Reads the text of a Word document (.docx) while its XML is parsed. No tree is built, so its depth has no limit."""

import io
from collections import Counter
from collections.abc import Callable
from typing import NoReturn
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from rag_zeval.documents.html import PARAGRAPH, tidy
from rag_zeval.errors import InputError

CONTENTS = "[Content_Types].xml"  # the file of the archive that gives each part's type
PARTS = ("document.main+xml", "footnotes+xml", "endnotes+xml")  # types of parts with text, in the order of reading
# Removed by a tracked change, or a second form of what is read, such as the pronunciation above a word (rt).
UNSEEN = ("del", "moveFrom", "Fallback", "rt")
BEFORE = {"br": "\n", "cr": "\n", "tab": " ", "ptab": " ", "noBreakHyphen": "-", "txbxContent": PARAGRAPH}
AFTER = {"tr": PARAGRAPH, "tbl": PARAGRAPH, "txbxContent": PARAGRAPH}
DOUBTS = {
    "altChunk": "imported documents, which are not read", "chart": "charts, which are not read",
    "object": "embedded objects, which are not read", "relIds": "diagrams, which are not read",
    "sym": "symbols of a font, which are not read",
    "oMath": "equations, of which only the letters and digits are read: a fraction 1/2 becomes 12",
}  # fmt: skip
OFF = {"0", "false", "off"}  # values of a property that does not hold
Attributes = dict[str, str]


def word_text(content: bytes) -> tuple[str, list[str]]:
    """Return the document's text, with blank lines between paragraphs, and a line on each kind of content that is lost.

    A row of a table is a paragraph. Footnotes and endnotes follow the body. Tracked changes count as accepted.
    Raises InputError for another kind of file and for a document with a password. Also raises it for XML with a
    document type, because its entities could expand to a huge text.
    """
    try:
        archive = ZipFile(io.BytesIO(content))
    except BadZipFile as error:
        raise InputError("needs a password, or is no Word document") from error
    parts: dict[str, str] = {}  # by type
    named = {CONTENTS}  # parts that have a type of their own; all others have that of their suffix
    of_suffix: dict[str, str] = {}
    pieces: list[str] = []
    doubts: dict[str, None] = {}
    within: Counter[str] = Counter()  # number of open elements, by name
    hidden: list[bool] = []  # of each open run, whether its text is hidden

    def note(_: str, of: Attributes) -> None:
        kind = of.get("ContentType", "").rpartition("wordprocessingml.")[2]
        if "PartName" in of:
            parts[kind] = of["PartName"].lstrip("/")
            named.add(parts[kind])
        else:
            of_suffix[of.get("Extension", "").lower()] = kind

    def start(name: str, of: Attributes) -> None:
        within[name] += 1
        pieces.append(BEFORE.get(name, ""))
        if name == "r":
            hidden.append(False)
        elif name == "vanish" and hidden and not (within["pPr"] or within["rPrChange"]):
            hidden[-1] = OFF.isdisjoint(of.values())
        if name in DOUBTS:
            doubts[f"has {DOUBTS[name]}"] = None

    def end(name: str) -> None:
        within[name] -= 1
        if name == "r":
            hidden.pop()
        if name == "p":
            pieces.append("\n" if within["tc"] else PARAGRAPH)
        elif name == "tc":
            pieces[-1] = " "  # in place of the line end of its last paragraph
        else:
            pieces.append(AFTER.get(name, ""))

    def text(written: str) -> None:
        if within["t"] and not any(within[name] for name in UNSEEN):
            if any(hidden):
                doubts["has hidden text, which is not read"] = None
            else:
                pieces.append(written)

    _parse(archive, CONTENTS, note)
    for name in archive.namelist():
        kind = of_suffix.get(name.rpartition(".")[2].lower())
        if name not in named and kind in PARTS:
            if kind in parts:
                raise InputError(f"has two parts of the type {kind}")
            parts[kind] = name
    if PARTS[0] not in parts:
        raise InputError("is no Word document")
    for part in PARTS:
        if part in parts:
            _parse(archive, parts[part], start, end, text)
    return tidy("".join(pieces)), list(doubts)


def _parse(
    archive: ZipFile,
    part: str,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] = lambda _: None,
    text: Callable[[str], None] = lambda _: None,
) -> None:
    """Parse a part. Call `start` and `end` with each element's name, without its namespace, and `text` with text."""

    def refuse(*_: object) -> NoReturn:
        raise InputError(f"has a document type in {part}, which no Word document has")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, of: start(name.rpartition(" ")[2], of)
    parser.EndElementHandler = lambda name: end(name.rpartition(" ")[2])
    parser.CharacterDataHandler = text
    parser.Parse(archive.read(part), True)
