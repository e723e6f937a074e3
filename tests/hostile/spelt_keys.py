"""How a key can be spelt in a text (`SPELLINGS`), and whether a content shows one however it is spelt (`shown`).

`shown` reads texts as somebody does who wants the key: it decodes whatever can be decoded, and shares nothing with
what masks keys.
"""

import base64
import binascii
import html
import json
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator

PIECE = 20  # characters of a key that nobody may see; without what separates them they are a few less


def each(spell: Callable[[int], str], between: str = "") -> Callable[[str], str]:
    """Every character by its code."""
    return lambda key: between.join(spell(ord(character)) for character in key)


def separated(by: str) -> Callable[[str], str]:
    return by.join


def base64_in(before: str, after: str = "", urlsafe: bool = False) -> Callable[[str], str]:
    code = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    return lambda key: code(f"{before}{key}{after}".encode()).decode()


def escaped(key: str) -> str:
    return each(lambda code: f"\\u{code:04x}")(key)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in capitals": str.upper,
    "in small letters": str.lower,
    "the first half": lambda key: key[: max(PIECE, len(key) // 2)],
    "the last half": lambda key: key[-max(PIECE, len(key) // 2) :],
    "base64": base64_in(""),
    "base64 of Bearer": base64_in("Bearer "),
    "base64 of user": base64_in("user:"),
    "base64 within a text": base64_in("the key ", " is not known"),
    "base64 for URLs": base64_in("?key=", "&x=1", urlsafe=True),
    "base64 in lines": lambda key: base64.encodebytes(f"{'.' * 50}{key}{'.' * 50}".encode()).decode(),
    "hex": each(lambda code: f"{code:02x}"),
    "hex in capitals, with colons": each(lambda code: f"{code:02X}", ":"),
    "JSON's escapes": escaped,
    "JSON's escapes in capitals": each(lambda code: f"\\u{code:04X}"),
    "JSON's escapes in JSON": lambda key: json.dumps(escaped(key))[1:-1],
    "JSON's escapes in JSON in JSON": lambda key: json.dumps(json.dumps(escaped(key)))[3:-3],
    "escaped slashes": lambda key: key.replace("/", "\\/"),
    "Python's escapes": each(lambda code: f"\\x{code:02x}"),
    "Python's long escapes": each(lambda code: f"\\U{code:08x}"),
    "JavaScript's escapes": each(lambda code: f"\\u{{{code:x}}}"),
    "percent-encoding": each(lambda code: f"%{code:02x}"),
    "percent-encoding where it must": lambda key: urllib.parse.quote(key, safe=""),
    "percent-encoding twice": each(lambda code: f"%25{code:02X}"),
    "percent-encoding thrice": each(lambda code: f"%2525{code:02X}"),
    "decimal entities": each(lambda code: f"&#{code};"),
    "decimal entities without their ends": each(lambda code: f"&#{code:04}"),
    "hexadecimal entities": each(lambda code: f"&#x{code:x};"),
    "entities of entities": each(lambda code: f"&amp;#{code};"),
    "named entities": lambda key: key.replace("+", "&plus;").replace("/", "&sol;").replace("-", "&hyphen;"),
    "entities in JSON": each(lambda code: f"\\u0026#{code};"),
    "escapes in a URL": lambda key: urllib.parse.quote(escaped(key), safe=""),
    "spaces between": separated(" "),
    "lines between": separated("\n"),
    "tabs in JSON between": separated("\\t"),
    "hyphens between": separated("-"),
    "dots between": separated("."),
    "zero-width spaces between": separated("\u200b"),
    "zero-width joiners in JSON between": separated("\\u200d"),
    "soft hyphens between": separated("\u00ad"),
    "groups of four": lambda key: " ".join(re.findall(".{1,4}", key)),
    "full-width": each(lambda code: chr(code + 0xFEE0)),
    "full-width in JSON": each(lambda code: f"\\u{code + 0xFEE0:04x}"),
}


def _unescaped(text: str) -> str:
    code = r"\\+(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2}))"
    text = re.sub(code, lambda match: chr(min(0x10FFFF, int(next(filter(None, match.groups())), 16))), text)
    return re.sub(r"\\+[nrt]", " ", text)


def _plain(text: str) -> str:
    """The characters that a key is told by."""
    return re.sub("[^a-z0-9]+", "", unicodedata.normalize("NFKC", text).lower())


def _readings(text: str) -> Iterator[str]:
    seen, new = {text}, [text]
    for _ in range(4):
        read = [reading for one in new for reading in (_unescaped(one), urllib.parse.unquote(one), html.unescape(one))]
        new = [one for one in dict.fromkeys(read) if one not in seen]
        seen.update(new)
    yield from seen


def _encoded(text: str) -> Iterator[str]:
    """What the runs of base64 and hex in a text hold."""
    for run in re.findall(r"[A-Za-z0-9+/_-]{20,}", re.sub(r"\s|\\+n", "", text)):
        for start in range(4):
            part = run[start:].replace("-", "+").replace("_", "/")
            yield base64.b64decode(part[: len(part) // 4 * 4]).decode("latin-1")
    for run in re.findall(r"(?:[0-9a-fA-F]{2}){20,}", re.sub(r"[\s:.-]", "", text)):
        yield binascii.unhexlify(run).decode("latin-1")


def shown(content: bytes, key: str) -> list[str]:
    """The pieces of a key that somebody who decodes this content finds."""
    least = len(_plain(key[:PIECE])) if len(key) >= PIECE else len(_plain(key))
    told = _plain(key)
    pieces = {told[at : at + least] for at in range(len(told) - least + 1)}
    for reading in _readings(content.decode("utf-8", "replace")):
        for text in (reading, *_encoded(reading)):
            plain = _plain(text)
            if found := sorted(piece for piece in pieces if piece in plain):
                return found
    return []
