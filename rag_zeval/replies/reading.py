"""The reader of every judge's replies: from a text to what was asked for, or to the reason why there is none.

Nothing is made up for what is missing, and nothing counts that the judge does not say as its answer: not a draft in
its thoughts, not what it repeats of the prompt or quotes out of a text, not what was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rag_zeval.replies.asked import Asked
from rag_zeval.replies.echo import plain_form
from rag_zeval.replies.elisions import stands_for_others
from rag_zeval.replies.loose_json import Unreadable as Unreadable  # noqa: PLC0414 (who reads replies has it from here)
from rag_zeval.replies.loose_json import read_spans
from rag_zeval.replies.thoughts import fault_outside, final_texts, unknown_tags, without_tags, without_wrapping
from rag_zeval.text import one_line

T = TypeVar("T")
READER = 2  # goes into the identity of what is read with it: raised whenever a reply may come to another score
EMPTY = "the reply is empty"
QUOTED = 80  # characters of an unreadable reply shown in its reason

# A bracket that opens JSON: not `[sic]` or `{name}`. `[1]`, a citation, is JSON all the same, and no reply by itself.
_OPENING = re.compile(r"""[\[{](?=\s*(?:["'\[{\]}\d-]|(?:true|false|null|True|False|None|NaN)\b))""")
_FIELD_NAME = re.compile(r"""["']([^"'\n]{1,100})["']\s*:""")
_FENCE = re.compile(r"```\w*|`")
_LABEL = re.compile(r"(?:[:：=→]|->)\Z|\A\d{1,3}[.)]\Z")  # what stands before an answer on its line
_DECORATION = " \t\r*_~>#-•`\"'"
_CLOSING_MARKS = _DECORATION + ".;,!…"
_ITEM = re.compile(r"^[ \t]*-(?!-).*$", re.MULTILINE)


@dataclass(frozen=True)
class Value:
    """A value of JSON in a reply. alone: whether it stands on lines of its own, and not in a sentence."""

    value: Any
    written: str
    alone: bool


def is_empty(text: str) -> bool:
    """Whether a reply says nothing, or nothing behind its thoughts."""
    *_, final = final_texts(text)
    return not final.strip()


def read_values(
    text: str, opening: re.Pattern[str], *, cut: bool = False, hidden: Sequence[str] = (), closed: bool = True
) -> tuple[list[Value], str]:
    """The JSON values of a reply's answer, in order, and the text outside of them; not what it says in its thoughts.

    opening: of what opens a value; cut: whether the reply ended at its longest; hidden: texts in which no value is
    looked for; closed: see `loose_json.iter_values`. Raises Unreadable when JSON begins that does not end, when the
    reply does not end its thoughts, and when a value stands in what may be thoughts: inside a tag that is not known,
    or behind the first words of a reply that was cut (the opening tag may stand in the prompt).
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
    """Whether what stands between two texts has lines of its own: a label before it, or marks behind it, are no words.

    >>> stands_alone("I looked.\\nOutput: ", ".\\nDone."), stands_alone("It says ", ". No.")
    (True, False)
    """
    line = _FENCE.sub("", without_tags(before.rpartition("\n")[2])).strip(_DECORATION)
    rest = _FENCE.sub("", without_tags(after.partition("\n")[0])).strip(_CLOSING_MARKS)
    return not rest and (not line or _LABEL.search(line) is not None)


def read_json(text: str, read: Callable[[Any], T], asked: Asked | None = None, *, cut: bool = False) -> T:
    """What `read` makes of the JSON in a reply: bare, in fences, with prose on other lines or behind thoughts.

    asked: what the judge was shown; cut: whether the reply ended at its longest: it counts then if its JSON is whole
    and comes first. JSON as models write it is understood (rag_zeval.replies.loose_json); NaN is null. `read` raises
    Unreadable (or any error of a wrong type or key) for a value of another shape.

    Raises Unreadable when no value has the right shape; when two that have it differ, for which is meant is not ours to
    say; when the only ones stand in a sentence, are repeated from the prompt, or are spelled out in a text that the
    judge was shown; when items are left out of one, or fields of it stand outside; and for all that `read_values`
    refuses.
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
    """Raises Unreadable if a list leaves items out, or a field of the value stands outside of it."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if outside := names_outside & value.keys():
                raise Unreadable(f"a field also occurs outside the value: {quoted(min(outside))}")
            todo.extend(value.values())
        elif isinstance(value, list):
            if any(map(stands_for_others, value)):
                raise Unreadable("a list leaves items out")
            todo.extend(value)


def read_text(text: str, read: Callable[[str], T], asked: Asked | None = None, spelled: str | None = None) -> T:
    """What `read` makes of a reply that is plain text, of which it gets what follows the thoughts.

    spelled: a regular expression, for plain forms (`echo.plain_form`), of what a reply is read by. A text to be judged
    that has it too cannot be told from the judge's own words. Raises Unreadable for such a reply, one that is empty,
    does not end its thoughts, has a tag that is not known, or repeats its prompt or a list that the judge was shown;
    `read` raises it for any other.
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
    """The items of the one list with hyphens in a text, without their hyphens; indented lines go on with an item.

    Raises Unreadable if there is none, or the same one twice; if anything stands between items, or on the line before
    them without being a label (`Output:`), for they may then be quoted in part; and if an item leaves others out.
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
    """The beginning of a reply in one line, as a reason shows it."""
    line = one_line(text)
    return repr(line if len(line) <= QUOTED else line[:QUOTED] + "…")
