"""Reads JSON as language models write it. It reads what the model meant, or raises an error.

It accepts JSON, and common deviations: Python's quotes and literals, trailing commas, comments, and line breaks and
unescaped quotes inside strings. The reader knows at every character where it is (in a string, after a key, between
items), so it never takes text inside a string for a field. An unclosed bracket is an error, not a shorter list. So is
a comment that stands for items, such as `// and so on`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rag_zeval.replies import elisions
from rag_zeval.text import one_line

Find = Callable[[str, int], "re.Match[str] | None"]
FAILURES = 64  # most failures of the json module in one text: each takes time in proportion to the text before it
DEPTH = 16  # most nested brackets; a trajectory has five
OBJECTS = re.compile(r"""(?:\[\s*)?\{\s*(["'])[^"'\n]{1,100}\1\s*:""")  # an object with a key, in a list or alone
_BEGUN = re.compile(r"""[\[{]\s*(?:\{\s*)?(?:["'][^"'\n]{0,100}["']?\s*)?\Z""")  # a value that ends before a colon
_FIRST_QUOTE = re.compile(r"""[^"']{0,1000}(["'])""")
_CONSTANT = r"(?i:true|false|null|none)|-?\d[\d.eE+-]{0,40}"
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
_SPACE = r"""(?:\s|//[^\n"']*\n|#[^\n"']*\n)*"""  # a comment with quotes is not read: it may be half a string
_ESCAPE = re.compile(r"\\(u[\da-fA-F]{4}|U00(?:0[\da-fA-F]|10)[\da-fA-F]{4}|x[\da-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_END = re.compile(r"\s*(?:```\s*)?\Z")  # of the text, or of the fence around it


class Unreadable(ValueError):
    """A reply, or the JSON in it, does not say what was asked for. The message says why."""


def read_spans(
    text: str, opening: re.Pattern[str], hidden: Sequence[str] = (), *, closed: bool = True
) -> tuple[list[tuple[Any, int, int]], list[str]]:
    """Return the values in a text, as `(value, start, end)`, and the pieces of text before, between and after them.

    opening: matches the beginning of a value; values inside a value are not listed. hidden: these texts, where they
    occur verbatim, are ignored. closed: see `iter_values`. Takes linear time. Raises Unreadable if a value begins that
    cannot be read to its end, because what follows may belong to it.

    >>> read_spans('so {"a": 1} or', OBJECTS)
    ([({'a': 1}, 3, 11)], ['so ', ' or'])
    """
    visible = _hidden(text, hidden)
    spans = list(iter_values(text, opening.search, visible, closed=closed))
    bounds = [0, *(at for _, start, end in spans for at in (start, end)), len(text)]
    pieces = [re.sub("\0+", "\n", visible[start:end]) for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    if _BEGUN.search(pieces[-1][-500:]):
        raise Unreadable("it ends within a value")
    return spans, pieces


def _hidden(text: str, pieces: Sequence[str]) -> str:
    """Return the text with NULs in place of the pieces. Its length stays the same."""
    pieces = [piece for piece in set(pieces) if piece and piece in text]
    characters = list(text) if pieces else []
    for piece in pieces:
        at = text.find(piece)
        while at >= 0:
            characters[at : at + len(piece)] = "\0" * len(piece)
            at = text.find(piece, at + len(piece))
    return "".join(characters) if pieces else text


def iter_values(
    text: str, find: Find, visible: str | None = None, *, closed: bool = True
) -> Iterator[tuple[Any, int, int]]:
    """Yield `(value, start, end)` for each value in a text. NaN and infinities become None. Raises Unreadable.

    find: the `search` of a pattern for the beginning of a value; it is called with the end of the last value. visible:
    the text to search, if parts of `text` are hidden. closed: whether all brackets must be closed. Otherwise the text
    may end before it closes a list and its last object, but no deeper, and only after another bracket.

    >>> [value for value, _, _ in iter_values("so: {'a': [1, True,]} or", re.compile("{").search)]
    [{'a': [1, True]}]
    """
    at = failures = 0
    while opening := find(text if visible is None else visible, at):
        start = opening.start()
        try:
            if failures >= FAILURES:
                raise ValueError("JSON's own reader is asked no more")
            value, at = _DECODER.raw_decode(text, start)
        except Unreadable:
            raise
        except (ValueError, RecursionError):
            failures += 1
            reader = _Reader(text, start, closed)
            value, at = reader.value(0), reader.at
        yield value, start, at


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """`object_pairs_hook` for json. Raises Unreadable for a duplicate key, since either value may be meant."""
    read = dict(pairs)
    if len(read) < len(pairs):
        raise Unreadable("an object has a duplicate key")
    return read


def values_within(value: Any) -> Iterator[Any]:
    """Yield a JSON value and all values inside it, at any depth and in any order."""
    todo = [value]
    while todo:
        value = todo.pop()
        yield value
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, (list, tuple)):
            todo.extend(value)


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=lambda name: None)


class _Reader:
    """Reads one value; `at` is the current index. It assumes that keys have the same kind of quote as the first one."""

    def __init__(self, text: str, at: int, closed: bool):
        self.text, self.at = text, at
        self._open_depth = 0 if closed else 2 if text[at] == "[" else 1
        first = _FIRST_QUOTE.match(text, at)
        quote = first[1] if first else '"'
        key = rf"{quote}[^{quote}\\\n]{{1,100}}{quote}{_SPACE}:"
        other = "'" if quote == '"' else '"'
        self._quotes = quote if quote == '"' else quote + other  # JSON has one kind; Python's repr uses both
        self._key = re.compile(rf"{quote}([^{quote}\\\n]{{1,100}}){quote}{_SPACE}:{_SPACE}")
        self._space = re.compile(_SPACE)
        self._constant = re.compile(rf"({_CONSTANT})(?={_SPACE}[,}}\]])")
        # what may follow the end of a string; a quote before anything else is part of the string
        self._after_value = re.compile(rf"{_SPACE}(?:\}}|,{_SPACE}(?:{key}|\}}))")
        self._after_item = re.compile(
            rf"{_SPACE}(?:\]|,{_SPACE}(?:[{self._quotes}\]\[{{]|(?:{_CONSTANT}){_SPACE}[,\]]))"
        )
        self._spelled = re.compile(rf"(?<!\\){key}")
        self._parting = {mark: re.compile(rf"(?<!\\){mark}\s*[,:\[\]{{}}]") for mark in self._quotes}
        self._marks = {mark: re.compile(rf"[\\{mark}]") for mark in self._quotes}

    def value(self, depth: int, in_list: bool = False) -> Any:
        if depth > DEPTH:
            raise Unreadable(f"brackets are nested more than {DEPTH} deep")
        found = self._next()
        if found == "{":
            return unique_keys(list(self._members(depth)))
        if found == "[":
            return list(self._items(depth))
        if found and found in self._quotes:
            return self._string(found, in_list)
        constant = self._constant.match(self.text, self.at)
        if constant is None:
            raise self._error("no value that can be read")
        self.at = constant.end()
        word = constant[1].lower()
        try:
            return _CONSTANTS[word] if word in _CONSTANTS else _number(word)
        except ValueError:
            raise Unreadable(f"'{word}' is not a number") from None

    def _members(self, depth: int) -> Iterator[tuple[str, Any]]:
        for _ in self._until("}", depth):
            key = self._key.match(self.text, self.at)
            if key is None:
                raise self._error("no key")
            self.at = key.end()
            yield key[1], self.value(depth + 1)

    def _items(self, depth: int) -> Iterator[Any]:
        for _ in self._until("]", depth):
            yield self.value(depth + 1, in_list=True)

    def _until(self, closing: str, depth: int) -> Iterator[None]:
        """Yield at the beginning of each element. `iter_values` says when the closing bracket may be missing."""
        self.at += 1
        self._skip_space(closing)
        while self._next() != closing:
            yield
            end = self.at
            self._skip_space(closing)
            if self._next() == ",":
                self.at += 1
                self._skip_space(closing, behind_comma=True)
            elif self._next() != closing:
                if depth < self._open_depth and self.text[end - 1] in "]}" and _END.match(self.text, end):
                    self.at = end
                    return
                raise self._error(f"neither ',' nor '{closing}'")
        self.at += 1

    def _string(self, mark: str, in_list: bool) -> str:
        start, after = self.at, self._after_item if in_list else self._after_value
        at = start + 1
        while found := self._marks[mark].search(self.text, at):
            if found[0] == "\\":
                at = found.end() + 1
            elif after.match(self.text, found.end()):
                self.at = found.end()
                if self._spelled.search(self.text, start, self.at):
                    raise Unreadable("a string holds a key: where it ends cannot be told")
                if in_list and self._parting[mark].search(self.text, start + 1, found.start()):
                    raise Unreadable("a string of a list holds what may part two: where it ends cannot be told")
                if elisions.WITHIN_STRING.search(self.text, start + 1, found.start()):
                    raise Unreadable("dots in place of items")
                return unescaped(self.text[start + 1 : found.start()])
            else:
                at = found.end()
        raise Unreadable("a string does not end")

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip_space(self, closing: str, behind_comma: bool = False) -> None:
        """Skip white space and comments.

        In a list, a comment must be on the line of an item, after its comma and before another item. Raises Unreadable
        for any other, and for one such as "3 more", because it may stand for items.
        """
        space = self._space.match(self.text, self.at)
        assert space is not None  # it also matches the empty text
        skipped, self.at = space[0], space.end()
        if closing == "]" and skipped.strip():
            comment, _, rest = skipped.lstrip(" \t").partition("\n")
            beside_item = behind_comma and comment and not rest.strip() and self._next() != closing
            if not beside_item or elisions.COMMENT.search(comment):
                raise Unreadable("a comment in place of items")

    def _error(self, lacking: str) -> Unreadable:
        rest = one_line(self.text[self.at : self.at + 40])
        return Unreadable(f"{lacking} at '{rest}'" if rest else "it ends within a value")


def _number(word: str) -> int | float:
    return int(word) if word.removeprefix("-").isdecimal() else float(word)


def unescaped(text: str) -> str:
    """Return the text with JSON's and Python's escapes resolved. Any other backslash stays."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins surrogate pairs


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code if code in "\"'\\/" else escape[0])
