"""Pages that make a parser drop what they say, with the words that a reader of each can see."""

import random
from collections.abc import Iterator

from hostile_files import HostileFile, words

MB = 1_000_000
# Behind or inside each of these a parser may lose its place. {} is text that a browser shows.
HARMLESS = (
    "<b><i>{}</b></i>", "</p></p></div>{}", "<table><tr>{}</table>", "<table><td>{}<table><td>{}", "<p <p>{}",
    "<p a='>' b=\"'>\">{}", "<p a=b'c>{}", "<p a=\"b\"c='d'/e=f>{}", "<p/ =\">{}", "<p a = >{}", "<p ='>{}",
    "<p a=b=\"c>{}", "<p//a/>{}", "<P\nCLASS\n=\n'x>'\n>{}", "1 < 2 {} <3 <", "</>{}", "</3>{}", "<>{}", "<?php '?>{}",
    "<!>{}", "<!-->{}", "<!--->{}", "<!---->{}", "<!-- -- > --!>{}", "<!--[if IE]>x<![endif]-->{}", "<![if !IE]>{}",
    "<!-- <!-- -->{}", "<!DOCTYPE html PUBLIC '-//W3C//DTD'>{}", "<![CDATA[ x ]]>{}",
    "<script>'</scr' + '<p>'</script>{}",
    "<script><!-- '<p' //--></script>{}", "<script><!-- <script></script> //--></script>{}",
    "<script src='x'/></script>{}", "<SCRIPT></sCript\n x='>' >{}",
    "<style>p > q::after {{content: '<!--'}}</style>{}", "<style></style/>{}", "<title></title>{}", "<title>{}</title>",
    "<title><p>{}</title>", "<textarea>{}</textarea>", "<textarea></p>{}</textarea>", "<noscript><p a='</noscript>{}",
    "<iframe><!-- </iframe>{}", "<xmp>{}</xmp>", "<xmp><!-- {}</xmp>", "<template><p>x</template>{}",
    "<template><table></template>{}", "<template><template></template></template>{}", "</template>{}",
    "<svg><title/>{}</svg>", "<svg><style/>{}</svg>", "<svg><text>{}</text><text>{}</text></svg>",
    "<svg><script href='x'/></svg>{}", "<math><mi>{}</mi></math>", "<svg><![CDATA[{}]]></svg>", "<svg>{}", "</svg>{}",
    "</body></html>{}", "<body><html>{}", "<select><option>{}<option>{}</select>", "<button>{}</button>",
    "<dl><dt>{}<dd>{}",
    "<frameset>{}", "<colgroup>{}", "<head>{}</head>", "<p>&amp;&lt;p&gt;{}", "&#x3c;p {}", "&#0;&#xD800;&nosuch;{}",
    "&#99999999;{}", "&#x110000;{}", "&{}", "<a href=x/>{}</a>", "<br/>{}<br>{}", "<p hidden>{}",
    "<\u017fcript>{}</\u017fcript>",
    "<!-- </p>\n\n --\n>-->{}", "<scripts>{}</scripts>", "<x-y:z a='1'>{}</x-y:z>", "\x0c{}\x0b", "\u2028{}\u2029",
    "<math><style/>{}</math>",
)  # fmt: skip
# Nothing closes these: what follows is hidden by a browser, so the page must be named.
UNCLOSED = (
    "<!--", "<!-- --", "<!", "<?php", "</ x", "<p", "<p class", "<p class=", "<p class='x>", '<p class="x>', "</p x",
    "<script>", "<style>", "<title>", "<textarea>", "<template>", "<noscript>",
    "<iframe>", "<noframes>", "<xmp>", "<![CDATA[", "<template></template><template>", "<svg><title>",
    "<script></script",
)  # fmt: skip
LARGE: dict[str, str] = {  # {n} is a size of 11 MB, or a depth
    "text": "<p>{word}", "attribute": "<p a='{word}'>", "attribute, no quotes": "<p a={letters}>",
    "name": "<p{letters}>",
    "script": "<script>{word}</script>", "style": "<style>{word}</style>", "comment": "<!--{word}-->",
    "title": "<title>{word}</title>", "textarea": "<textarea>{word}</textarea>", "declaration": "<!DOCTYPE {word}>",
    "instruction": "<?{word}>", "CDATA": "<![CDATA[{word}]]>", "template": "<template>{word}</template>",
}  # fmt: skip
DEEP = ("div", "b", "span", "table", "ul", "font", "blockquote", "template", "svg", "x-a", "object", "a")
MANY = {
    "attributes": "<p {a=1 }>", "tags": "{<p>}", "ends": "{</p>}", "<": "{<}", "<a": "{<a}>", "&": "{&}", "&#": "{&#}",
    "&#1": "&#{1};", "comments": "{<!---->}", "comments open": "{<!--}-->", "scripts": "{<script></script>}",
    "script ends": "<script>{</script }</script>", "=": "<p {=}>", "= ": "<p {= }>", "quotes": "<p a={'}>",
    "/": "<p{/}>",
    "spaces": "<p{ }>", "dashes": "<!--{-}-->", "]": "<![CDATA[{]}]]>", "cells": "<table>{<td>}</table>",
    "lines": "{\n}",
    "<!": "{<!>}", "titles": "{<title></title>}", "brs": "{<br>}", "svgs": "{<svg>}",
    "templates": "{<template></template>}",
}  # fmt: skip
ENCODINGS = {  # what a page declares, how its bytes are made, and letters that the encoding has
    "utf-8": ("utf-8", "Größe"), "UTF8": ("utf-8", "Größe"), "iso-8859-1": ("cp1252", "“Größe”"),
    "windows-1251": ("cp1251", "Размер"),
    "koi8-r": ("koi8-r", "Размер"), "shift_jis": ("cp932", "大きさ①"), "euc-jp": ("euc-jp", "大きさ"),
    "iso-2022-jp": ("iso-2022-jp", "大きさ"),
    "gb2312": ("gbk", "尺寸镕"),
    "big5": ("big5", "尺寸"), "euc-kr": ("cp949", "크기똠"), "iso-8859-9": ("cp1254", "ölçü"),
    "windows-1256": ("cp1256", "حجم"), "iso-8859-15": ("iso-8859-15", "Größe€"), "ascii": ("cp1252", "Größe"),
}  # fmt: skip
WRONG = {  # a declaration, and how the bytes are made all the same
    "utf-8": "cp1252", "utf-16": "cp1252", "shift_jis": "koi8-r", "euc-jp": "cp1252", "utf-7": "cp1252",
    "nosuch": "cp1252",
    "unicode_escape": "cp1252", "rot13": "cp1252", "base64": "cp1252", "cp037": "cp1252", "utf-32": "utf-16-le",
    "idna": "cp1252",
}  # fmt: skip


def page(kind: str, body: str, seen: list[str], whole: bool = True) -> HostileFile:
    return HostileFile(f"page: {kind}", ".html", body.encode(), seen, whole)


def _filled(template: str, rng: random.Random) -> tuple[str, list[str]]:
    inside = words(rng, template.count("{}"))
    return template.format(*inside), inside


def _around(kind: str, middle: str, rng: random.Random, inside: list[str], whole: bool = True) -> HostileFile:
    before, after = words(rng, 3), words(rng, 3)
    body = f"<p>{' '.join(before)}</p>{middle} <p>{' '.join(after)}</p>"
    return page(kind, body, [*before, *inside, *after], whole)


def _soup(number: int, rng: random.Random) -> HostileFile:
    """Pieces of all kinds, one after the other; in every third page one is left open at the end."""
    body, seen = "", []
    for template in rng.choices(HARMLESS, k=rng.randint(3, 30)):
        said, between = _filled(template, rng), words(rng, 1)
        body += f"{said[0]} {between[0]} "
        seen += [*said[1], *between]
    whole = number % 3 > 0
    return page("soup", body if whole else f"{body}{rng.choice(UNCLOSED)} {words(rng, 1)[0]}", seen, whole)


def light_pages(rng: random.Random, soups: int) -> Iterator[HostileFile]:
    for template in HARMLESS:
        middle, inside = _filled(template, rng)
        yield _around(template, middle, rng, inside)
    for start in UNCLOSED:
        yield _around(f"{start} without an end", start, rng, [], whole=False)
    plain = words(rng, 2)
    yield page("plaintext", f"<p>{plain[0]}<plaintext><b>{plain[1]}</b><!-- <script>", plain)
    [split] = words(rng, 1)
    yield page("words in pieces", f"<p>{split[:3]}<b>{split[3:5]}</b><!-- x -->{split[5:]}", [split])
    [spelt] = words(rng, 1)
    yield page("entities", "<p>" + "".join(f"&#{ord(letter)};" for letter in spelt), [spelt])
    yield from _encoded(rng)
    for number in range(soups):
        yield _soup(number, rng)


def _encoded(rng: random.Random) -> Iterator[HostileFile]:
    for label, (encoding, letters) in ENCODINGS.items():
        for declaration in (f"<meta charset={label}>", f"<meta content='text/html; charset={label}' http-equiv=x>"):
            seen = [*words(rng, 2), letters]
            body = f"{declaration}<p>{' '.join(seen)}"
            yield HostileFile(f"page: {label}", ".html", body.encode(encoding), seen, True)
    for label, encoding in WRONG.items():
        seen = [*words(rng, 2), "Größe"]
        body = f"<meta charset={label}><p>{' '.join(seen)}".encode(encoding, "replace")
        yield HostileFile(f"page: {label} that is not", ".htm", body, seen, False, ascii_only=True)
    for encoding, whole in (
        ("utf-8-sig", True), ("utf-16", True), ("utf-32", True), ("utf-16-le", False), ("utf-16-be", False),
        ("cp1252", False),
    ):  # fmt: skip
        seen = [*words(rng, 2), "Größe"]
        yield HostileFile(f"page: in {encoding}", ".html", f"<p>{' '.join(seen)}".encode(encoding), seen, whole)
    for middle in ("\0", "<p a='\0'>", "<\0p>", "<!--\0-->", "\ufffe", "\ufeff"):
        yield _around(f"{middle!r}", middle, rng, [], whole="\0" not in middle)
    seen = words(rng, 2)
    yield HostileFile(
        "page: two encodings", ".html", f"<p>{seen[0]} ö".encode() + f"ö {seen[1]}".encode("cp1252"), seen, False
    )


def heavy_pages(rng: random.Random) -> Iterator[HostileFile]:
    for kind, template in LARGE.items():
        inside = words(rng, 1) if kind in ("text", "title", "textarea", "CDATA") else []
        text = " ".join(["word"] * (11 * MB // 5) + inside)
        yield _around(f"a {kind} of 11 MB", template.format(word=text, letters="x" * 11 * MB), rng, inside)
    for tag in DEEP:
        for depth in (300, 30_000):
            for end in (f"</{tag}>", ""):
                inside = words(rng, 1)
                seen = inside if tag != "template" else []
                body = f"<{tag}>" * depth + inside[0] + end * depth
                yield _around(
                    f"{depth} <{tag}> {'closed' * bool(end)}", body, rng, seen, bool(end) or tag != "template"
                )
    for kind, template in MANY.items():
        first, _, rest = template.partition("{")
        unit, _, last = rest.partition("}")
        body = first + unit * (MB // len(unit)) + last
        yield _around(f"1 MB of {kind}", body, rng, [], whole=False)
