"""Word documents that are broken, swell as they are read, or hide their words where Word shows them."""

import io
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping

from hostile_files import HostileFile, words

MB = 1_000_000
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml."
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TYPES, BODY, NOTES = "[Content_Types].xml", "word/document.xml", "word/footnotes.xml"
LISTED = "".join(
    f'<Override PartName="/{part}" ContentType="{MAIN}{kind}"/>'
    for part, kind in {BODY: "document.main+xml", NOTES: "footnotes+xml"}.items()
)


def xml(inside: str, head: str = "", encoding: str = "utf-8") -> bytes:
    """A part's root with this inside; `head` stands before it."""
    return f'{head}<w:document xmlns:w="{W}">{inside}</w:document>'.encode(encoding)


def p(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def archive(parts: Mapping[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return file.getvalue()


def parts_of(body: bytes, notes: bytes = xml("")) -> dict[str, bytes]:
    return {TYPES: f"<Types>{LISTED}</Types>".encode(), BODY: body, NOTES: notes}


def light_docx(rng: random.Random, broken: int) -> Iterator[HostileFile]:
    yield from _whole(rng)
    yield from _not_to_be_read(rng)
    for _ in range(broken):
        seen = words(rng, 3)
        content = bytearray(archive(parts_of(xml(p(seen[0]) + p(seen[1])), xml(p(seen[2])))))
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        yield HostileFile("Word with broken bytes", ".docx", bytes(content), seen, whole=False)


def _whole(rng: random.Random) -> Iterator[HostileFile]:
    """What Word shows; all of it is to be read."""
    shapes: dict[str, Callable[[str, str], str]] = {
        "runs": lambda one, two: f"<w:p><w:r><w:t>{one[:4]}</w:t></w:r><w:r><w:t>{one[4:]} {two}</w:t></w:r></w:p>",
        "tables in tables": lambda one, two: _in_tables(p(one), 50) + p(two),
        "a text box": lambda one, two: f"<w:p><w:r><w:txbxContent>{p(one)}</w:txbxContent></w:r></w:p>{p(two)}",
        "what was inserted": lambda one, two: f"<w:p><w:ins><w:r><w:t>{one}</w:t></w:r></w:ins></w:p>{p(two)}",
        "a link and a field": lambda one, two: (
            f"<w:p><w:hyperlink><w:r><w:t>{one}</w:t></w:r></w:hyperlink><w:fldSimple><w:r><w:t> {two}</w:t></w:r>"
            "</w:fldSimple></w:p>"
        ),
        "a block of contents": lambda one, two: f"<w:sdt><w:sdtContent>{p(one)}</w:sdtContent></w:sdt>{p(two)}",
        "CDATA and references": lambda one, two: p(f"<![CDATA[{one}]]> &#x77;{two[1:]}"),
    }
    for name, shape in shapes.items():
        seen = words(rng, 3)
        content = archive(parts_of(xml(shape(seen[0], seen[1])), xml(p(seen[2]))))
        yield HostileFile(f"Word with {name}", ".docx", content, seen, whole=True)
    for encoding in ("utf-8-sig", "utf-16", "iso-8859-1"):
        seen = words(rng, 1)
        head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
        yield HostileFile(
            f"Word in {encoding}", ".docx", archive(parts_of(xml(p(seen[0]), head, encoding))), seen, whole=True
        )
    for packing in (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        seen = words(rng, 1)
        content = archive(parts_of(xml(p(seen[0]))), packing)
        yield HostileFile(f"Word packed in way {packing}", ".DOCX", content, seen, whole=True)


def _in_tables(inside: str, deep: int) -> str:
    before, after = "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"
    return before * deep + inside + after * deep


def _not_to_be_read(rng: random.Random) -> Iterator[HostileFile]:
    """What cannot be read whole, and is to be named."""
    seen = words(rng, 1)
    good = parts_of(xml(p(seen[0])))
    entity = f'<!DOCTYPE x [<!ENTITY a "{"ha" * 99}"><!ENTITY b "{"&a;" * 99}">]>'
    outside = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    for name, content in {
        "entities": archive(parts_of(xml(p(f"{seen[0]} &b;"), entity))),
        "an entity of another file": archive(parts_of(xml(p(f"{seen[0]} &a;"), outside))),
        "XML that is cut": archive(parts_of(xml(p(seen[0]))[:-20])),
        "a byte that is no UTF-8": archive(parts_of(xml(p(seen[0])).replace(seen[0].encode(), b"\xff"))),
        "no body": archive({name: part for name, part in good.items() if name != BODY}),
        "no list of types": archive({name: part for name, part in good.items() if name != TYPES}),
        "no notes where they are listed": archive({name: part for name, part in good.items() if name != NOTES}),
        "half of the file": archive(good)[: len(archive(good)) // 2],
        "a password": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000),
        "another document": archive({"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b"<x/>"}),
        "a document in it": archive(parts_of(xml('<w:altChunk r="1"/>' + p("Something.")))),
    }.items():
        yield HostileFile(f"Word with {name}", ".docx", content, seen, whole=False, told=True)


def heavy_docx(rng: random.Random) -> Iterator[HostileFile]:
    """Small files that take memory or time."""
    cells = b"<w:tbl><w:tr><w:tc>", b"</w:tc></w:tr></w:tbl>"
    for name, *blocks in (
        ("1 GB of spaces", *[b" " * MB] * 1_000),
        ("70 MB of spaces", *[b" " * MB] * 70),
        ("a million paragraphs", p("w").encode() * MB),
        ("a million elements in each other", b"<w:p>" * MB, b"</w:p>" * MB),
        ("20,000 tables in each other", cells[0] * 20_000, p("w").encode(), cells[1] * 20_000),
        ("an element with a million attributes", b"<w:p ", b" ".join(b'a%d=""' % at for at in range(MB)), b"/>"),
    ):
        front, back = words(rng, 2)
        before, after = xml(f"{p(front)} {p(back)}").split(b" <w:p>", 1)
        file = io.BytesIO(archive({TYPES: parts_of(b"")[TYPES], NOTES: xml("")}))
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as made, made.open(BODY, "w", force_zip64=True) as part:
            for block in (before, *blocks, b"<w:p>", after):
                part.write(block)
        yield HostileFile(f"Word with {name}", ".docx", file.getvalue(), [front, back], whole=False)
    front, back = words(rng, 2)
    many = {f"word/{at}.xml": b"" for at in range(50_000)}
    content = archive({**parts_of(xml(p(front)), xml(p(back))), **many})
    yield HostileFile("Word with 50,000 parts", ".docx", content, [front, back], whole=True)
