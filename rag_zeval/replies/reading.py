"""The reader of every judge's replies: from a text to what was asked for, or to the reason why there is none.

Nothing is made up for what is missing, and nothing counts that the judge does not say as its answer: not a draft in
its thoughts, not what it repeats of the prompt or quotes out of a text, not what was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from rag_zeval.models.language_model import one_line
from rag_zeval.replies import loose_json
from rag_zeval.replies.echo import Echo, letters_of, plain_form
from rag_zeval.replies.thoughts import fault_outside, final_texts, unknown_tags, without_tags, without_wrapping

T = TypeVar("T")
READER = 2  # goes into the identity of what is read with it: raised whenever a reply may come to another score
QUOTED = 80  # characters of an unreadable reply shown in its reason
REPEATED = 12  # letters of a line from which on it is known as one of the prompt

# A bracket that opens JSON: not `[sic]` or `{name}`. `[1]`, a citation, is JSON all the same, and no reply by itself.
_OPENING = re.compile(r"""[\[{](?=\s*(?:["'\[{\]}\d-]|(?:true|false|null|True|False|None|NaN)\b))""")
_FIELD_NAME = re.compile(r"""["']([^"'\n]{1,100})["']\s*:""")
_FENCE = re.compile(r"```\w*|`")
_LABEL = re.compile(r"(?:[:：=→]|->|\d[.)])$")  # at the end of what stands before a value on its line
_DECORATION = " \t\r*_~>#-•`\"'"
_CLOSING_MARKS = _DECORATION + ".;,!…"


class Unreadable(ValueError):
    """The reply says nothing of the kind that was asked for; the message says why."""


@dataclass(frozen=True)
class Asked:
    """What a judge was asked: the instructions of its prompt, and the inputs in it (JSON), whose texts it was shown."""

    instructions: str = ""
    inputs: Any = None

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """All texts of the inputs."""
        return tuple(_texts(self.inputs))

    @cached_property
    def echo(self) -> Echo:
        return Echo(self.shown)

    def repeats(self, said: str) -> bool:
        """Whether a text holds a line of the instructions."""
        lines = [letters for line in said.splitlines() if len(letters := letters_of(plain_form(line))) >= REPEATED]
        return any(line in self._instructions for line in lines)

    def holds_example(self, written: str) -> bool:
        """Whether a value, as it is written in a reply, stands in the instructions: it may be their example."""
        return letters_of(plain_form(written)) in self._instructions

    @cached_property
    def _instructions(self) -> str:
        return letters_of(plain_form(self.instructions))


def _texts(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, (list, tuple)):
            todo.extend(value)


@dataclass(frozen=True)
class Value:
    """A value of JSON in a reply. alone: whether it stands on lines of its own, and not in a sentence."""

    value: Any
    written: str
    alone: bool


def read_values(
    text: str, opening: re.Pattern[str], *, cut: bool = False, hidden: Sequence[str] = (), closed: bool = True
) -> tuple[list[Value], str]:
    """The JSON values of a reply's answer, in order, and the text outside of them; not what it says in its thoughts.

    opening: of what opens a value; cut: whether the reply ended at its longest; hidden: texts in which no value is
    looked for; closed: see `loose_json.iter_values`. Raises Unreadable when JSON begins that does not end, when the
    reply does not end its thoughts, and when a value stands in what may be thoughts: inside a tag that is not known,
    or behind the first words of a reply that was cut (the opening tag may stand in the prompt).
    """
    failure = Unreadable("the reply is empty")
    for final in final_texts(text):
        if not final.strip():
            failure = Unreadable("the reply is empty")
            continue
        try:
            spans, pieces = loose_json.read_spans(final, opening, hidden, closed=closed)
        except loose_json.Unreadable as error:
            failure = Unreadable(f"JSON that cannot be read ({error}): {quoted(final)}")
            continue
        if fault := fault_outside(pieces):
            failure = Unreadable(fault)
            continue
        if cut and spans and _says_something(pieces[0]):
            raise Unreadable("the reply was cut off, and what stands before its JSON may be thoughts")
        values = [
            Value(value, final[start:end], stands_alone(before, after))
            for (value, start, end), before, after in zip(spans, pieces, pieces[1:], strict=False)
        ]
        return values, "\n".join(pieces)
    raise failure


def _says_something(before: str) -> bool:
    return any(map(str.isalnum, _FENCE.sub("", without_tags(before))))


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
    judge was shown; when fields of one stand outside of it; and for all that `read_values` refuses.
    """
    asked = asked or Asked()
    values, outside = read_values(text, _OPENING, cut=cut)
    shown = quoted(text)
    reason = f"no JSON in the reply {shown}"
    found: list[T] = []
    alone = False
    repeats, names = asked.repeats(outside), set(_FIELD_NAME.findall(outside))
    for value in values:
        try:
            result = read(value.value)
        except Unreadable as error:
            reason = str(error)
            continue
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError):
            reason = f"JSON of another shape: {shown}"
            continue
        if value.value == asked.inputs or (repeats and asked.holds_example(value.written)):
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


_ELISIONS = re.compile(r"(?i)\W*(?:(?:and so (?:on|forth)|and more|etc|\d+ more|usw|等)\W*)?")


def _check_whole(value: Any, names_outside: set[str]) -> None:
    """Raises Unreadable if a list holds an elision in place of items, or a field stands outside of the value."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if outside := names_outside & value.keys():
                raise Unreadable(f"a field stands outside of the value as well: {quoted(min(outside))}")
            todo.extend(value.values())
        elif isinstance(value, list):
            if any(isinstance(item, str) and item and _ELISIONS.fullmatch(item) for item in value):
                raise Unreadable("a list leaves items out")
            todo.extend(value)


def read_text(text: str, read: Callable[[str], T], asked: Asked | None = None, spelled: str | None = None) -> T:
    """What `read` makes of a reply that is plain text, of which it gets what follows the thoughts.

    spelled: a regular expression, for plain forms (`echo.plain_form`), of what a reply is read by. A text to be judged
    that has it too cannot be told from the judge's own words. Raises Unreadable for such a reply, one that is empty,
    does not end its thoughts, has a tag that is not known, or repeats its prompt; `read` raises it for any other.
    """
    asked = asked or Asked()
    *_, final = final_texts(text)
    prose = "\n".join(line for line in final.splitlines() if not line.lstrip().startswith("-"))
    if not final.strip():
        raise Unreadable("the reply is empty")
    if fault := fault_outside([prose]):
        raise Unreadable(fault)
    if tag := next(unknown_tags(prose), None):
        raise Unreadable(f"it has a tag that is not known: '{tag[0]}'")
    if asked.repeats(final):
        raise Unreadable(f"the reply repeats its prompt: {quoted(text)}")
    if spelled and any(re.search(spelled, shown) for shown in asked.echo.plain):
        raise Unreadable("a text to be judged spells out what a judge writes")
    return read(without_wrapping(final))


def quoted(text: str) -> str:
    """The beginning of a reply in one line, as a reason shows it."""
    line = one_line(text)
    return repr(line if len(line) <= QUOTED else line[:QUOTED] + "…")
