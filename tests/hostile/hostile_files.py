"""Files of text and what a reader must find in them; pages and PDFs are made next door."""

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True)
class HostileFile:
    """A file, and the `words` that it says. whole: it is to be read, all of it, and not to be named.

    told: it is to be named whatever of it is read. ascii_only: of its words only those of ASCII are looked for.
    """

    kind: str
    suffix: str
    content: bytes
    words: list[str]
    whole: bool
    told: bool = False
    ascii_only: bool = False


def words(rng: random.Random, number: int) -> list[str]:
    """Words that stand nowhere else."""
    return ["w" + "".join(rng.choices(string.ascii_lowercase, k=9)) for _ in range(number)]


def light_texts(rng: random.Random) -> Iterator[HostileFile]:
    for suffix in (".txt", ".md", ".markdown", ".TXT"):
        for encoding, whole in (
            ("utf-8", True), ("utf-8-sig", True), ("utf-16", True), ("utf-32", True), ("cp1252", False),
            ("utf-16-le", False),
        ):  # fmt: skip
            seen = [*words(rng, 2), "Größe"]
            yield HostileFile(f"text in {encoding}", suffix, "\r\n".join(seen).encode(encoding), seen, whole)
    harmless = b"\r", b"\x0c", b"\x1a", b"\x1b[2J", b"\xe2\x80\x8b", b"\xe2\x80\xae", b"\xef\xbf\xbe", b"<!--", b"```"
    for middle in (*harmless, b"\0", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80"):
        seen = words(rng, 2)
        content = middle.join(word.encode() for word in seen)
        yield HostileFile(f"text around {middle!r}", ".md", content, seen, whole=middle in harmless)
    yield HostileFile("text that is none", ".txt", rng.randbytes(10_000), words(rng, 1), False, told=True)
    for content in (b"", b" \n\t", "\u200b\ufeff\u202e".encode()):
        yield HostileFile("text without words", ".txt", content, words(rng, 1), False, told=True)


def heavy_texts(rng: random.Random) -> Iterator[HostileFile]:
    for between in (" ", "\n", "\n\n", ""):
        seen = words(rng, 2)
        body = seen[0] + " " + (f"word.{between}" * (11 * MB // (5 + len(between)))) + " " + seen[1]
        yield HostileFile(f"text of 11 MB with {between!r}", ".txt", body.encode(), seen, True)
    yield HostileFile("text of 60 MB", ".txt", b"word " * (12 * MB), words(rng, 1), False, told=True)
    yield HostileFile("text of 600 MB", ".txt", b"word " * (120 * MB), words(rng, 1), False, told=True)
