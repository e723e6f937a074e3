"""Reads the replies of every judge: finds what was asked for, or the reason why it is not there.

Missing values are never made up. Only the judge's answer counts: not a draft in its thoughts, not a copy of the prompt,
not a quote from a text, and nothing that was cut off.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rag_zeval.replies.asked import Asked
from rag_zeval.replies.echo import plain_form
from rag_zeval.replies.elisions import stands_for_others
from rag_zeval.replies.loose_json import Unreadable, read_spans, values_within
from rag_zeval.replies.thoughts import fault_outside, final_texts, unknown_tags, without_tags, without_wrapping
from rag_zeval.text import one_line

T = TypeVar("T")
READER = 2  # part of each scorer's identity; raise it when the same reply may get another score
EMPTY = "the reply is empty"
QUOTED = 80  # characters of a reply in an error message

# A bracket that opens JSON: not `[sic]` or `{name}`. A citation such as `[1]` is JSON too, but not a reply by itself.
_OPENING = re.compile(r"""[\[{](?=\s*(?:["'\[{\]}\d-]|(?:true|false|null|True|False|None|NaN)\b))""")
_FIELD_NAME = re.compile(r"""["']([^"'\n]{1,100})["']\s*:""")
_FENCE = re.compile(r"```\w*|`")
_LABEL = re.compile(r"(?:[:：=→]|->)\Z|\A\d{1,3}[.)]\Z")  # the end of a label before an answer
_DECORATION = " \t\r*_~>#-•`\"'"
_CLOSING_MARKS = _DECORATION + ".;,!…"
_ITEM = re.compile(r"^[ \t]*-(?!-).*$", re.MULTILINE)


@dataclass(frozen=True)
class Value:
    """A JSON value in a reply, and its text. alone: whether it is on its own lines, not within a sentence."""

    value: Any
    written: str
    alone: bool


def is_empty(text: str) -> bool:
    """Whether a reply is empty, or empty after its thoughts."""
    *_, final = final_texts(text)
    return not final.strip()


def read_values(
    text: str, opening: re.Pattern[str], *, cut: bool = False, hidden: Sequence[str] = (), closed: bool = True
) -> tuple[list[Value], str]:
    """Return the JSON values of a reply's answer, in order, and the text outside them. Thoughts are skipped.

    opening: matches the beginning of a value. cut: whether the reply ended at its token limit. hidden: texts that are
    not searched. closed: see `loose_json.iter_values`. Raises Unreadable if JSON begins but does not end, if the reply
    does not end its thoughts, and if a value may be part of thoughts: inside an unknown tag, or after the first words
    of a reply that was cut (the opening tag may be in the prompt).
    """
    failure = Unreadable(EMPTY)
    for final in final_texts(text):
        if not final.strip():
            failure = Unreadable(EMPTY)
            continue
        try:
            spans, pieces = read_spans(final, opening, hidden, closed=closed)
        except Unreadable as error:
            failure = Unreadable(f"JSON that cannot be read ({error}): {quoted(final)}")
            continue
        if fault := fault_outside(pieces):
            failure = Unreadable(fault)
            continue
        if cut and spans and any(map(str.isalnum, _FENCE.sub("", without_tags(pieces[0])))):
            raise Unreadable("the reply was cut off, and the text before its JSON may be thoughts")
        values = [
            Value(value, final[start:end], stands_alone(before, after))
            for (value, start, end), before, after in zip(spans, pieces, pieces[1:], strict=False)
        ]
        return values, "\n".join(pieces)
    raise failure


def stands_alone(before: str, after: str) -> bool:
    """Whether what is between two texts is on its own lines. A label before it and marks after it are allowed.

    >>> stands_alone("I looked.\\nOutput: ", ".\\nDone."), stands_alone("It says ", ". No.")
    (True, False)
    """
    line = _FENCE.sub("", without_tags(before.rpartition("\n")[2])).strip(_DECORATION)
    rest = _FENCE.sub("", without_tags(after.partition("\n")[0])).strip(_CLOSING_MARKS)
    return not rest and (not line or _LABEL.search(line) is not None)


def read_json(text: str, read: Callable[[Any], T], asked: Asked | None = None, *, cut: bool = False) -> T:
    """Find the JSON value that was asked for, and return `read(value)`.

    The JSON may be bare, in fences, after thoughts, or have prose on other lines. JSON as models write it is accepted
    (rag_zeval.replies.loose_json); NaN becomes None. read: raises Unreadable, or any error of a wrong type or key, for
    a value of another shape. asked: what the judge was shown. cut: whether the reply ended at its token limit; it then
    counts if its JSON is complete and comes first.

    Raises Unreadable if no value has the right shape, or if two values have it and differ. It is also raised if all of
    them are within a sentence, or are copied from the prompt or a shown text. So it is if a value omits items, if its
    fields also occur outside it, and whenever `read_values` raises it.

    >>> read_json('So: {"score": 3}', lambda value: value["score"])
    3
    """
    asked = asked or Asked()
    values, outside = read_values(text, _OPENING, cut=cut)
    shown = quoted(text)
    reason = f"no JSON in the reply {shown}"
    found: list[T] = []
    alone = False
    repeats, names = asked.is_repeated_by(outside), set(_FIELD_NAME.findall(outside))
    for value in values:
        try:
            result = read(value.value)
        except Unreadable as error:
            reason = str(error)
            continue
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError):
            reason = f"JSON of another shape: {shown}"
            continue
        if value.value == asked.inputs or asked.has_example(value.value, value.written, repeats):
            reason = f"the reply repeats its prompt: {shown}"
        elif asked.echo.spells(value.written):
            reason = f"the reply repeats a text to be judged: {shown}"
        elif asked.echo.has_seam_of(value.written):
            raise Unreadable(f"strings follow each other as in a text to be judged: {shown}")
        elif found and result != found[0]:
            raise Unreadable(f"2 different answers in one reply {shown}")
        else:
            _check_whole(value.value, names)
            alone = alone or value.alone
            found.append(result)
    if not alone:
        raise Unreadable(f"JSON within a sentence: {shown}" if found else reason)
    return found[0]


def _check_whole(value: Any, names_outside: set[str]) -> None:
    """Raise Unreadable if a list omits items, or a field of the value also occurs outside of it."""
    for inner in values_within(value):
        if isinstance(inner, dict) and (outside := names_outside & inner.keys()):
            raise Unreadable(f"a field also occurs outside the value: {quoted(min(outside))}")
        if isinstance(inner, list) and any(map(stands_for_others, inner)):
            raise Unreadable("a list leaves items out")


def read_text(text: str, read: Callable[[str], T], asked: Asked | None = None, spelled: str | None = None) -> T:
    """Return `read(text)` for a reply in plain text, without its thoughts. `read` may raise Unreadable.

    spelled: a regular expression, on plain forms (`echo.plain_form`), for the words by which a reply is read. If a
    shown text contains them too, they cannot be told from the judge's own, and the reply is rejected. Raises Unreadable
    also if the reply is empty, does not end its thoughts, has an unknown tag, or repeats its prompt or a shown list.
    """
    asked = asked or Asked()
    *_, final = final_texts(text)
    prose = "\n".join(line for line in final.splitlines() if not _ITEM.match(line))
    if not final.strip():
        raise Unreadable(EMPTY)
    if fault := fault_outside([prose]):
        raise Unreadable(fault)
    if tag := next(unknown_tags(prose), None):
        raise Unreadable(f"the reply has an unknown tag: '{tag[0]}'")
    if asked.is_repeated_by(final):
        raise Unreadable(f"the reply repeats its prompt: {quoted(text)}")
    if spelled and any(re.search(spelled, shown) for shown in asked.echo.plain):
        raise Unreadable("a text to be judged spells out what a judge writes")
    items = plain_form("\n".join(_ITEM.findall(final)))
    if items and any(map(str.isalnum, prose)) and any(items in shown for shown in asked.echo.plain):
        raise Unreadable(f"the reply repeats a list of a text to be judged: {quoted(text)}")
    return read(without_wrapping(final))


def list_items(text: str) -> list[str]:
    """Return the items of the only hyphen list in a text, without hyphens. An indented line continues an item.

    Raises Unreadable if there is no list, or the same one twice, or if an item stands for omitted ones. It is also
    raised if there is text between items, or on the line before them unless it is a label (`Output:`): the list may
    then be a quote.
    """
    items: list[str] = []
    before, is_over = "", False
    for line in text.splitlines():
        if _ITEM.match(line):
            if is_over:
                raise Unreadable(f"a list with other text in it: {quoted(text)}")
            items.append(line.strip()[1:].strip())
        elif not items:
            before = line
        elif line.strip() and line[0] in " \t":
            items[-1] += f" {line.strip()}"
        elif line.strip():
            is_over = True
            items += [line] if stands_for_others(line) and "```" not in line else []
    half = len(items) // 2
    if not items:
        raise Unreadable(f"no list with hyphens in {quoted(text)}")
    if not stands_alone(before, ""):
        raise Unreadable(f"a list within a sentence: {quoted(text)}")
    if items[:half] == items[half:]:
        raise Unreadable(f"the same list twice: {quoted(text)}")
    if any(map(stands_for_others, items)):
        raise Unreadable(f"a list leaves items out: {quoted(text)}")
    return items


def quoted(text: str) -> str:
    """Return the beginning of a reply, on one line and in quotes, for an error message."""
    line = one_line(text)
    return repr(line if len(line) <= QUOTED else line[:QUOTED] + "…")
