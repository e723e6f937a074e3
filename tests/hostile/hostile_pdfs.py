"""PDFs that lose pages, loop, or swell as they are read, with the words on their pages."""

import io
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence

from hostile_files import HostileFile, words

MB = 1_000_000
Objects = dict[int, bytes]  # a PDF's, by their numbers
FONT, PAGES = 3, 2  # numbers of objects that every one has
RESOURCES = b"/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"

FORM = b"/Type /XObject /Subtype /Form /Resources << /Font << /F1 3 0 R >> /XObject << /X %d 0 R >> >>"
DRAWING = (
    b"<< /Type /Page /Parent 2 0 R /Contents 11 0 R /Resources << /Font << /F1 3 0 R >> /XObject << /X 30 0 R >> >> >>"
)


def shown(text: str, at: int = 720) -> bytes:
    return f"BT /F1 12 Tf 72 {at} Td ({text}) Tj ET\n".encode()


def stream(data: bytes, more: bytes = b"", length: int | None = None) -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data) if length is None else length, more, data)


def deflated(data: bytes, more: bytes = b"/Filter /FlateDecode") -> bytes:
    return stream(zlib.compress(data), more)


def swollen(unit: bytes, size: int, end: bytes = b"") -> bytes:
    """A stream of `size` bytes, deflated without ever being held."""
    packer, block = zlib.compressobj(9), unit * (MB // len(unit))
    packed = b"".join(packer.compress(block) for _ in range(size // MB)) + packer.compress(end) + packer.flush()
    return stream(packed, b"/Filter /FlateDecode")


def objects(*contents: bytes, kids: str | None = None, page: bytes = b"") -> Objects:
    """A document with a page for each content, a whole stream; pages are 10, 12, ..., their contents 11, 13, ..."""
    numbers = [10 + 2 * at for at in range(len(contents))]
    listed = kids if kids is not None else " ".join(f"{number} 0 R" for number in numbers)
    made: Objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        PAGES: f"<< /Type /Pages /Kids [{listed}] /Count {len(contents)} >>".encode(),
        FONT: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    }
    for number, content in zip(numbers, contents, strict=True):
        rest = b"/Contents %d 0 R" % (number + 1)
        made[number] = b"<< /Type /Page /Parent 2 0 R %s %s %s >>" % (RESOURCES, rest, page)
        made[number + 1] = content
    return made


def written(made: Mapping[int, bytes], trailer: bytes = b"", shift: int = 0) -> bytes:
    """The file; `shift` moves the places that its table names."""
    parts, places, at = [b"%PDF-1.7\n"], {}, 9
    for number, body in made.items():
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, body))
        places[number] = at + shift
        at += len(parts[-1])
    size = max(made) + 1
    table = b"".join(b"%010d 00000 n \n" % places[n] if n in places else b"0000000000 65535 f \n" for n in range(size))
    end = b"xref\n0 %d\n%strailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n"
    return b"".join(parts) + end % (size, table, size, trailer, at)


def pdf(kind: str, made: Mapping[int, bytes] | bytes, seen: Sequence[str], whole: bool = True, told: bool = False):
    content = made if isinstance(made, bytes) else written(made)
    return HostileFile(f"PDF: {kind}", ".pdf", content, list(seen), whole and not told, told)


def pages(*words: str) -> Objects:
    """A document with one word on each page."""
    return objects(*(stream(shown(word)) for word in words))


def light_pdfs(rng: random.Random, broken: int) -> Iterator[HostileFile]:
    yield from _honest(rng)
    yield from _told(rng)
    yield from _loops(rng)
    for number in range(broken):
        yield _broken(number, rng)


def _honest(rng: random.Random) -> Iterator[HostileFile]:
    """Whatever a writer of PDFs may do."""
    seen = words(rng, 3)
    plain, first = [stream(shown(word)) for word in seen], seen[0].encode()
    octal = "".join(f"\\{ord(letter):03o}" for letter in seen[0])
    twice = zlib.compress(zlib.compress(shown(seen[0])))
    lines = "BT /F1 12 Tf 14 TL 72 720 Td ({}) Tj ({}) ' 1 1 ({}) \" ET".format(*seen).encode()
    for kind, content in {
        "hexadecimal": stream(shown(seen[0]).hex().encode() + b">", b"/Filter /ASCIIHexDecode"),
        "deflated twice": stream(twice, b"/Filter [/FlateDecode /FlateDecode]"),
        "in pieces": stream(b"BT /F1 12 Tf 72 720 Td [(%s) -1 (%s)] TJ ET" % (first[:4], first[4:])),
        "hexadecimal words": stream(b"BT /F1 12 Tf <%s> Tj ET" % first.hex().encode()),
        "octal words": stream(shown(octal)),
    }.items():
        yield pdf(kind, objects(content), seen[:1])
    listed = {11: b"[20 0 R 21 0 R 22 0 R]", **dict(zip((20, 21, 22), plain, strict=True))}
    form = stream(shown(seen[1]), b"/Type /XObject /Subtype /Form " + RESOURCES)
    bare_form = stream(shown(seen[1]), b"/Type /XObject /Subtype /Form")
    held = {**objects(stream(shown(seen[0]) + b"q /X Do Q\n" + shown(seen[2]))), 10: DRAWING, 30: form}
    apart = {
        10: b"<< /Type /Page /Parent 2 0 R /Contents 40 0 R /Resources 41 0 R /Annots 42 0 R >>",
        40: b"[11 0 R]",
        41: b"<< /Font 43 0 R /XObject 44 0 R >>",
        42: b"[null 45 0 R 7 46 0 R]",
        43: b"<< /F1 3 0 R /F2 null >>",
        44: b"<< /X 30 0 R /Y null /Z 7 >>",
        45: b"<< /Type /Annot /Subtype /Link >>",
        46: b"null",
    }
    kids = b"<< /Type /Pages /Parent 2 0 R /Kids [%d 0 R] /Count 1 >>"
    nested = {number: kids % (number + 1 if number < 89 else 10) for number in range(40, 90)}
    for kind, made in {
        "plain": objects(*plain),
        "deflated": objects(*(deflated(shown(word)) for word in seen)),
        "lines": objects(stream(lines)),
        "many contents": {**objects(plain[0]), **listed},
        "a form": held,
        "a form with the page's fonts": {**held, 30: bare_form},
        "a form, all by reference": {**held, 30: bare_form, **apart},
        "pages 50 deep": {**objects(*plain, kids="40 0 R 12 0 R 14 0 R"), **nested},
    }.items():
        yield pdf(kind, made, seen)
    yield pdf("no font", {**objects(plain[0]), FONT: b"null"}, seen[:1], whole=False)
    yield pdf("bytes in front", b"junk\n" * 20 + written(objects(*plain)), seen, whole=False)
    many = words(rng, 100)
    yield pdf("100 pages", pages(*many), many)
    yield from _by_pypdf(rng)


def _by_pypdf(rng: random.Random) -> Iterator[HostileFile]:
    import pypdf

    for kind, keys in {"rewritten": None, "without a password": "", "with a password": "secret"}.items():
        seen = words(rng, 2)
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(written(pages(*seen))))
        writer.compress_identical_objects()
        for page in writer.pages:
            page.compress_content_streams()
        if keys is not None:
            writer.encrypt(user_password=keys, owner_password="owner", algorithm="RC4-128")
        file = io.BytesIO()
        writer.write(file)
        yield pdf(kind, file.getvalue(), seen, told=keys == "secret")


def _told(rng: random.Random) -> Iterator[HostileFile]:
    """Not all of these can be read, and it must be said."""
    seen = words(rng, 3)
    plain = [stream(shown(word)) for word in seen]
    cut = zlib.compress(b"".join(shown(word, 700 - at) for at, word in enumerate(words(rng, 300))))
    half = len(cut) // 2
    holed = cut[:half] + rng.randbytes(20) + cut[half + 20 :]
    for kind, content in {
        "a filter of no kind": stream(b"x", b"/Filter /NoDecode"),
        "0.3 of a stream": stream(cut[: int(0.3 * len(cut))], b"/Filter /FlateDecode"),
        "0.9 of a stream": stream(cut[: int(0.9 * len(cut))], b"/Filter /FlateDecode"),
        "a stream with a hole": stream(holed, b"/Filter /FlateDecode"),
    }.items():
        yield pdf(kind, objects(plain[0], content), seen[:1], told=True)
    for kind, made in {
        "a page that is missing": objects(*plain, kids="10 0 R 99 0 R 14 0 R"),
        "a page that is null": objects(*plain, kids="10 0 R null 14 0 R"),
        "a page that is a number": objects(*plain, kids="10 0 R 7 14 0 R"),
        "a page without contents": {**objects(*plain), 13: b"null"},
        "a page of no type": {**objects(*plain), 12: b"<< /X 1 >>"},
        "a page without text": objects(plain[0], stream(b"0 0 m 9 9 l S"), plain[2]),
        "fewer pages than it counts": objects(*plain, kids="10 0 R 14 0 R"),
    }.items():
        yield pdf(kind, made, [seen[0], seen[2]], told=True)
    for kind in ("FreeText", "Widget"):
        note = b"<< /Type /Annot /Subtype /%s /Rect [0 0 9 9] /Contents (note) /V (value) >>" % kind.encode()
        for name, listed in ((f"a {kind}", b"[20 0 R]"), (f"a list with a {kind}", b"21 0 R")):
            made = objects(plain[0], page=b"/Annots " + listed)
            yield pdf(name, {**made, 20: note, 21: b"[20 0 R]"}, seen[:1], told=True)
    ends = {
        "string": b"BT /F1 12 Tf (open ",
        "array": b"BT /F1 12 Tf [(open",
        "dictionary": b"/P << /A (",
        "image": b"BI /W 9 ID xx ",
    }
    both = shown(seen[0]) + shown(seen[1])
    for kind, content in {
        **{f"an open {kind}": stream(shown(seen[0]) + end + shown(seen[1])) for kind, end in ends.items()},
        **{f"a length of {length}": stream(both, length=length) for length in (0, 10, 10**6, 10**12, -5)},
        "no end of a stream": stream(both).replace(b"endstream", b""),
    }.items():
        yield pdf(kind, objects(content, plain[2]), seen, whole=False)
    broken_form = stream(b"x", b"/Subtype /Form /Filter /FlateDecode " + RESOURCES)
    made = {**objects(stream(shown(seen[0]) + b"/X Do\n")), 10: DRAWING, 30: broken_form}
    yield pdf("a broken form", made, seen[:1], told=True)


def _loops(rng: random.Random) -> Iterator[HostileFile]:
    """Objects that lead back to themselves."""
    [seen] = words(rng, 1)
    plain = stream(shown(seen))
    made = objects(plain)
    page, pages, contents = made[10], b"<< /Type /Pages /Kids [%s] /Count %d >>", b"/Contents 11 0 R"
    font = b"<< /Type /Font /Subtype /Type%d /BaseFont /X /%s >>"
    held_by_itself = b"<< /Font << /F1 3 0 R >> /X 20 0 R /XObject 20 0 R >>"
    endless = stream(b"1e999 0 0 1e999 1e999 -1e999 cm nan 0 Td " + shown(seen))
    for kind, changed in {
        "pages in themselves": {PAGES: pages % (b"10 0 R 2 0 R", 2)},
        "pages of each other": {PAGES: pages % (b"20 0 R 10 0 R", 2), 20: pages % (b"2 0 R", 1)},
        "a page that is its own parent": {10: page.replace(b"/Parent 2 0 R", b"/Parent 10 0 R")},
        "a length that is its own": {11: plain.replace(b"/Length %d" % len(shown(seen)), b"/Length 11 0 R")},
        "contents that are the page": {10: page.replace(contents, b"/Contents 10 0 R")},
        "contents in themselves": {10: page.replace(contents, b"/Contents 20 0 R"), 20: b"[11 0 R 20 0 R]"},
        "an object that is itself": {10: b"10 0 R"},
        "two objects that are each other": {10: b"20 0 R", 20: b"10 0 R"},
        "a root that is itself": {1: b"1 0 R"},
        "a font that is itself": {FONT: b"3 0 R"},
        "letters that are the font": {FONT: font % (1, b"ToUnicode 3 0 R")},
        "fonts of a font without end": {FONT: font % (0, b"DescendantFonts [3 0 R]")},
        "resources in themselves": {10: page.replace(RESOURCES, b"/Resources 20 0 R"), 20: held_by_itself},
        "many pages that are one": {PAGES: pages % (b"10 0 R " * 200, 200)},
        "no pages": {PAGES: b"null"},
        "a number too long": {11: stream(shown(seen) + b"9" * 5000 + b" Td " + shown(seen))},
        "an infinite number": {11: endless},
        "no root": {1: b"<< >>"},
        "a form in itself": {10: DRAWING, 11: stream(b"/X Do " + shown(seen)), 30: stream(b"/X Do", FORM % 30)},
    }.items():
        yield pdf(kind, {**made, **changed}, [seen], whole=False)
    table = written(made).rindex(b"xref\n0")
    yield pdf("a table that follows itself", written(made, b"/Prev %d" % table), [seen], whole=False)


def _deep(rng: random.Random) -> Iterator[HostileFile]:
    """Objects in objects in objects."""
    [seen] = words(rng, 1)
    made = objects(stream(shown(seen)))
    drawn = {**made, 10: DRAWING, 11: stream(b"/X Do " + shown(seen))}
    chain = {number: stream(b"/X Do", FORM % (number + 1)) for number in range(30, 2030)}
    doubling = {number: stream(b"/X Do " * 2, FORM % (number + 1)) for number in range(30, 60)}
    deep = {number: b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (number + 1) for number in range(20, 5020)}
    top = made[PAGES].replace(b"10 0 R", b"20 0 R")
    for kind, found in {
        "forms 2,000 deep": {**drawn, **chain, 2030: stream(shown(seen))},
        "forms that double": {**drawn, **doubling, 60: stream(b"")},
        "pages 5,000 deep": {**made, PAGES: top, **deep, 5020: made[10]},
    }.items():
        yield pdf(kind, found, [seen], whole=False)
    for opening in (b"[", b"<<", b"(", b"<</A"):
        kind, many = f"{opening.decode()} 100,000 deep", opening * 100_000
        holding = made[10].replace(b">> >>", b">> /X 20 0 R >>", 1)
        yield pdf(kind, {**made, 20: many, 10: holding}, [seen], whole=False)
        yield pdf(f"{kind} in contents", objects(deflated(many + shown(seen))), [seen], whole=False)


def _broken(number: int, rng: random.Random) -> HostileFile:
    """A whole PDF with a piece cut off, or with the structure around its words damaged: the words stay as they are."""
    seen = words(rng, 6)
    content = written(pages(*seen))
    kinds = ("cut off", "no table", "no trailer", "places moved", "structure damaged")
    kind = kinds[number % len(kinds)]
    if kind == "cut off":
        content = content[: rng.randint(len(content) // 4, len(content) - 2)]
    elif kind == "no table":
        content = content[: content.rindex(b"xref\n0")] + rng.choice([b"", b"startxref\n12\n%%EOF", b"%%EOF"])
    elif kind == "no trailer":
        content = content[: content.index(b"trailer")]
    elif kind == "places moved":
        content = written(pages(*seen), shift=rng.choice([-9, -1, 1, 7, 10**6]))
    else:
        damaged = list(re.finditer(rb"endobj|endstream|obj|/Type|/Kids|/Contents|/Parent| R|<<|>>|/Length", content))
        for hit in rng.sample(damaged, rng.randint(1, 4)):
            content = content[: hit.start()] + b"\x01" * len(hit[0]) + content[hit.end() :]
    return pdf(f"{kind}", content, seen, whole=False)


def heavy_pdfs(rng: random.Random) -> Iterator[HostileFile]:
    """Small files that take memory or time."""
    yield from _deep(rng)
    front, back = words(rng, 2)
    first, last = stream(shown(front)), b"\n" + shown(back)
    streams = {number: stream(shown(back) if number == 20_099 else b"q Q") for number in range(100, 20_100)}
    listed = b"[%s]" % b" ".join(b"%d 0 R" % number for number in streams)
    text = b"BT /F1 12 Tf "
    for kind, content in {
        "1 GB of spaces": swollen(b" ", 1000 * MB, last),
        "70 MB of spaces": swollen(b" ", 70 * MB, last),
        "70 MB of text": swollen(b"(word) Tj\n", 70 * MB, last),
        "70 MB of one string": swollen(b"word ", 70 * MB, b") Tj " + last).replace(b"stream\n", b"stream\n", 1),
        "a million operators": swollen(b"1 0 0 1 0 0 cm\n", 15 * MB, last),
        "a million states": swollen(b"q\n", 2 * MB, last),
        "a million words": deflated(text + b"(w) Tj " * MB + b"ET" + last),
        "a million fonts": deflated(b"BT " + b"/F1 12 Tf " * MB + b"ET" + last),
        "a million moves": deflated(text + b"1 1 Td (w) Tj " * (MB // 5) + b"ET" + last),
        "a million numbers": deflated(text + b"[" + b"(w) 1 " * MB + b"] TJ ET" + last),
        "deflated 16 times": _packed(b" " * 50 * MB + last, 16),
        "LZW": stream(b"\x80\x0b\x60\x50" * MB, b"/Filter /LZWDecode"),
        "runs of bytes": stream(b"\x81 " * 4 * MB + b"\x80", b"/Filter /RunLengthDecode"),
        "a letter repaired byte by byte": stream(b"\x78\x9c" + rng.randbytes(3 * MB), b"/Filter /FlateDecode"),
        "20,000 streams of a page": listed,
    }.items():
        more = streams if content is listed else {}
        yield pdf(kind, {**objects(first, content), **more}, [front, back], whole=False)
    many = words(rng, 5_000)
    yield pdf("5,000 pages", pages(*many), many, whole=False)
    one = b"1 beginbfchar <41> <%s> endbfchar" % (b"0041" * 30_000)
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 20 0 R >>"
    long = {**objects(deflated(text + b"(%s) Tj ET" % (b"A" * 100_000))), FONT: font, 20: deflated(one)}
    yield pdf("letters of 30,000 letters", long, [front], whole=False, told=True)
    mapped = (
        b"1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        + b"1 beginbfrange <0000> <ffff> <0041> endbfrange\n" * 200
    )
    kids = b"<< /Type /Pages /Kids [%s] /Count 9 >>"
    spread = {number: kids % (b"%d 0 R " % (number + 1) * 9) for number in range(20, 40)}
    plain = written(objects(first))
    for kind, made in {
        "ranges of letters": {**objects(first), FONT: font, 20: deflated(mapped)},
        "9 to the 20 pages": {**objects(first, kids="20 0 R"), **spread, 40: objects(first)[10]},
        "a table of 10^9 objects": plain.replace(b"xref\n0 ", b"xref\n0 999999999 "),
        "100,000 ends": plain + b"startxref\n9\n%%EOF\n" * 100_000,
        "1 MB of obj": plain[:-30] + b"1 0 obj\n" * (MB // 8),
    }.items():
        yield pdf(kind, made, [front], whole=False)


def _packed(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = zlib.compress(data)
    return stream(data, b"/Filter [%s]" % (b"/FlateDecode " * times))
