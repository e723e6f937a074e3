"""Finds the places in a file's rows, columns and paths into objects, and tells which fields each of them may hold."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from rag_zeval.cases.cells import (
    as_chunks,
    as_ids,
    as_text,
    as_truth,
    is_list,
    is_nothing,
    is_object,
    is_readable,
    is_several,
    label_in,
)
from rag_zeval.cases.chat import SPEAKERS, is_dialogue, role_of, text_name
from rag_zeval.cases.name_words import field_said_by, is_about_truth, is_aside, is_judged, words_of
from rag_zeval.cases.names import (
    CHUNK_TEXT,
    CLASSES,
    EXPECTED,
    SNIPPET,
    TEXT_PARTS,
    field_in_record,
    field_of,
    plain_name,
    snake_name,
)
from rag_zeval.cases.paths import at_path, is_number, stem_of
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.texts import LETTER, NUMBER, is_flag, is_label, is_prose, is_sentence, is_verdict
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import QUESTION_MARKS, one_line

FEW = 3  # texts
MOST_WORDS = 6  # in a title
LEAST_WORDS = 4  # in a text that seems to be an answer, although its name does not say so
TITLES = {"file", "id", "link", "name", "note", "page", "path", "section", "title", "type", "url"}  # in names: no texts
NO_TEXTS = "objects without a text"
DEEPEST = 4  # names in a path
LOOKED_INSIDE = 10  # rows of every file into whose objects we look, which may have many names


@dataclass(frozen=True, eq=False)
class Place:
    """A column, or a path into its objects, with the values that rows have there."""

    path: str
    values: Sequence[Any]

    @property
    def last(self) -> str:
        """The last name of the path."""
        return self.path.rpartition(".")[2]

    @cached_property
    def field(self) -> str | None:
        """The field that the last name is a name of, if any. All that is inside a ground truth is ground truth."""
        *outer, last = self.path.split(".")
        is_true = any(field_of(name) in ("truth", "reference") or plain_name(name) in EXPECTED for name in outer)
        is_text = snake_name(last) in CHUNK_TEXT and not field_of(last)
        if outer and (is_number(last) or last == "*" or (is_text and not is_number(outer[-1].removeprefix("-")))):
            last = outer.pop()  # replies.0, query.text, but not messages.0.content
        return "truth" if is_true else field_of(stem_of(last))

    @property
    def is_beside_truth(self) -> bool:
        """Whether this is in a record of what is expected, but not the ground truth: contexts there are expected."""
        outer, dot, _ = self.path.rpartition(".")
        if plain_name(outer.partition(".")[0]) in EXPECTED:
            return field_in_record(self.path) is None
        return bool(dot) and any(map(is_about_truth, outer.split("."))) and self.field != "truth"

    @property
    def is_judged(self) -> bool:
        """Whether this is inside of what a judge or a metric said."""
        return any(map(is_judged, self.path.split(".")[:-1]))

    def is_aside(self, field: str) -> bool:
        """Whether the name says that this belongs to something else, or was expected instead of given."""
        return is_aside(self.last) or (field != "truth" and is_about_truth(self.last))

    def says_other(self, field: str) -> bool:
        """Whether a name in the path says that another field is there: `evidence.quote` is no answer."""
        return any(field_said_by(name) not in (None, field) for name in self.path.split("."))

    def says(self, field: str) -> bool:
        """Whether the words of the name say that this is a field, and its values are such texts."""
        says_so = field_said_by(self.last) == field and not self.is_aside(field) and not self.says_other(field)
        return says_so and (self.has_passages if field == "contexts" else self.has_texts(field))

    def may_hold(self, field: str) -> bool:
        """Whether the values look like those of a field, although the name does not say so."""
        if self.says_other(field):
            return False
        if field == "contexts":
            return any(map(is_several, self.values)) and self.has_passages
        if snake_name(self.last).split("_")[-1].removesuffix("s") in ("context", *CHUNK_TEXT):
            return False
        texts = texts_in(self.values)
        questions = sum(text.rstrip().endswith(QUESTION_MARKS) for text in texts)
        if field == "question":
            return 2 * questions > len(self.values)
        is_said = any(is_sentence(text, LEAST_WORDS) for text in texts)
        return 2 * questions <= len(self.values) and is_said and vary(texts)

    def can_hold(self, field: str) -> bool:
        """Whether the values can be read as a field. Contexts must all be readable; the parts of one text are none."""
        if field == "contexts":
            are_parts = any(is_list(value) and texts_in([value]) for value in self.values)
            if are_parts or any(map(role_of, map(unfolded, self.values))):
                return False
            with suppress(InputError):
                found = [as_chunks(value)[0] for value in self.values]  # all are readable
                return any(found)
            return False
        if field in SPEAKERS and self.are_dialogues:
            return False
        values = [value for value in self.values if field != "answer" or not lists_texts(value)]  # gold answers
        values = [value for value in values if field != "question" or LETTER.search(str(value))]
        return any(_is_filled(value, is_truth=field not in SPEAKERS) for value in values)

    def has_texts(self, field: str) -> bool:
        """Whether the values are neither numbers nor names of files, nor a few texts that repeat. But questions may."""
        texts = [
            text for text in texts_in(self.values) if LETTER.search(text) and not (is_label(text) or is_flag(text))
        ]
        are_asked_again = field == "question" and len({*texts}) > 1 and 2 * sum(map(is_sentence, texts)) >= len(texts)
        return bool(texts) and 2 * len(texts) >= len(self.values) and (vary(texts) or are_asked_again)

    @cached_property
    def are_dialogues(self) -> bool:
        """Whether most texts hold a question and its answer."""
        texts = texts_in(self.values)
        return 2 * sum(map(is_dialogue, texts)) > len(texts)

    @cached_property
    def has_passages(self) -> bool:
        """Whether most values hold texts that are longer than titles, and no questions."""
        texts = [[text for text in _sentences(value) if not text.endswith(QUESTION_MARKS)] for value in self.values]
        long = [any(is_sentence(text, MOST_WORDS) and is_prose(text) for text in some) for some in texts]
        return 2 * sum(long) >= len(self.values)

    @property
    def is_passage(self) -> bool:
        """Whether this is called like the text of a chunk, such as `content`, and holds passages."""
        return snake_name(self.last) in CHUNK_TEXT and self.has_passages

    def contradiction(self, field: str, contexts: Sequence[Any] = ()) -> str | None:
        """Return in words what all values are, if the field holds nothing of that kind, or else None.

        contexts: the values of the retrieved contexts, if they are known.
        """
        if field == "contexts" and (label := label_in(self.values)):
            kind = "numbers" if NUMBER.fullmatch(label) else "ids, links or names of files"
            return f"{kind}, such as '{one_line(label)}'"
        if field == "contexts" and self._are_objects_without_text:
            return NO_TEXTS
        joined = [value for value in self.values if field == "context_ids" and not is_readable(as_ids, value)]
        if joined and self.path != field:
            return f"several ids in one text, such as '{one_line(str(joined[0]))}'"
        are_lists = field == "answer" and not any(is_readable(as_text, value) for value in self.values)
        if are_lists and all(map(is_list, self.values)) and label_in(self.values):
            return f"lists of labels, such as '{one_line(str(self.values[0]))}'"
        with suppress(InputError):
            if field in ("answer", "truth") and self.values:
                texts = [as_text(value) or "" for value in self.values]
                are_verdicts = all(map(is_verdict, texts)) or (field == "answer" and {*texts} == CLASSES)
                return f"verdicts or labels, such as '{texts[0]}'" if are_verdicts else None
            if field == "context_ids" and self.values:
                is_one = all(not isinstance(unfolded(one), list) and len(as_ids(one)) == 1 for one in self.values)
                if is_one and any(len(as_chunks(value)[0]) > 1 for value in contexts):
                    return f"one id a row, such as '{self.values[0]}', for several contexts"
        return None

    @property
    def _are_objects_without_text(self) -> bool:
        """Whether no value can be read as contexts, and none holds a sentence under any name for a text."""
        values = [value for value in self.values if unfolded(value)]
        return bool(values) and not any(is_readable(as_chunks, value) or any(_prose_in(value)) for value in values)

    @property
    def has_sentences(self) -> bool:
        return any(map(_sentences, self.values))

    @cached_property
    def are_chunks(self) -> bool:
        """Whether all values are lists of objects, and no chat messages."""
        lists = [value for value in self.values if is_object(value) and is_list(value)]
        return len(lists) == len(self.values) and not any(role_of(one) for value in lists for one in unfolded(value))

    @property
    def are_ids(self) -> bool:
        """Whether all values are ids, links or names of files, and no numbers."""
        return all(LETTER.search(text) and is_label(text) for text in map(str, self.values))

    @property
    def length(self) -> float:
        """The median length of the texts in the values, in characters."""
        return median(sum(map(len, _sentences(value) or texts_in([value]))) for value in self.values)


def places_in(sample: Sequence[Row]) -> dict[str, Place]:
    """Return the places in rows by their paths, up to four names deep, and the content of chat messages."""
    values: dict[str, list[Any]] = {}
    for row in sample:
        for path, value in _inside(row, "", 0):
            values.setdefault(path, []).append(value)
    return {path: Place(path, of) for path, of in values.items()}


def _inside(value: Any, path: str, depth: int, of_items: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the values inside a value, each with its path.

    In a list of objects that are no chunks, a path is that of all objects, or of the first and the last if their names
    differ. of_items: whether the value is one of those of all objects.
    """
    held = unfolded(value)
    is_objects = isinstance(held, list) and is_object(held)
    if isinstance(held, Mapping) and depth < DEEPEST:
        for name, inner in held.items():
            yield from _inside(inner, f"{path}.{name}" if path else str(name), depth + 1, of_items)
    elif is_objects and all(map(role_of, held)):
        yield from () if of_items else _in_messages(held, path, depth)
    elif is_objects and depth < DEEPEST and not Place(path, [held]).can_hold("contexts"):
        is_one = len(held) == 1
        if len({tuple(item) for item in held}) == 1:
            for name, first in held[0].items():
                inner = first if is_one else at_path(held, str(name))
                yield from _inside(inner, f"{path}.{name}", depth + 1, of_items or not is_one)
        elif not of_items and not any(item.get("type") in TEXT_PARTS for item in held):
            for at in (0, -1):
                yield from _inside(held[at], f"{path}.{at}", depth)
    elif path and not is_nothing(value):
        yield path, value
        yield from _in_answer(held, path)


def _in_messages(messages: Sequence[Mapping[str, Any]], path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what is inside chat messages, counted from the end, too, because dialogues differ in length."""
    for at in (*range(len(messages)), *range(-len(messages), 0)):
        message, said = messages[at], text_name(messages[at])
        yield from _inside(message[said], f"{path}.{at}.{said}", DEEPEST if isinstance(message[said], list) else depth)
        for name, inner in message.items() if at < 0 else ():  # such as the sources of an answer
            if name != said and (isinstance(inner, list) or field_of(str(name))):
                yield from _inside(inner, f"{path}.{at}.{name}", depth)


def _in_answer(held: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the text of an answer that is a list: of sentences with citations, as TREC writes them, or of one text."""
    name = path.rpartition(".")[2]
    if not isinstance(held, list) or not held or field_of(name) != "answer":
        return
    texts = [one["text"] for one in held if isinstance(one, Mapping) and {"text", "citations"} <= {*one}]
    if len(texts) == len(held) and all(isinstance(text, str) for text in texts):
        yield f"{path}.text", " ".join(texts)
    if len(held) == 1 and isinstance(held[0], str) and plain_name(name) != "answer":  # which may be gold
        yield f"{path}.0", held[0]


def fields_inside(there: Collection[str], sample: Sequence[Row]) -> dict[str, str]:
    """Return for each field the first place inside an object that has its name and holds a text."""
    inside: dict[str, str] = {}
    for place in places_in(sample[:LOOKED_INSIDE]).values():
        if place.path in there or place.is_judged:
            continue
        field = place.field or ("contexts" if place.are_chunks else None)
        # contexts are more than a word, such as the name of a file; a truth that is a list or a flag, an annotation
        texts = [one for one in place.values if not (is_several(one) or isinstance(one, bool))]
        if field and (place.has_sentences if field == "contexts" else texts):
            inside.setdefault(field, place.path)
    return inside


def vary(texts: Sequence[str]) -> bool:
    """Whether texts are more than a few that repeat, such as names of models."""
    return len(texts) < FEW or FEW * len(set(texts)) > len(texts)


def lists_texts(value: Any) -> bool:
    """Whether a value is a list with a text, or a text that prints one."""
    held = unfolded(value)
    return isinstance(held, list) and any(isinstance(one, str) for one in held)


def _is_filled(value: Any, is_truth: bool) -> bool:
    with suppress(InputError):
        held = unfolded(value)
        is_flag = any(isinstance(one, bool) for one in (held if isinstance(held, list) else [held]))
        return not (is_flag or is_object(value)) and (as_truth if is_truth else as_text)(value) is not None
    return False


def texts_in(values: Sequence[Any]) -> list[str]:
    """Return the values that are texts, or the parts of one."""
    texts: list[str] = []
    for value in map(unfolded, values):
        if isinstance(value, (str, list)) and not lists_texts(value):
            with suppress(InputError):
                texts += [text] if (text := as_text(value)) else []
    return texts


def _prose_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value that are longer than titles, except those whose names say that they are titles."""
    held = unfolded(value)
    if isinstance(held, Mapping):
        for name, inner in held.items():
            yield from () if {word.removesuffix("s") for word in words_of(str(name))} & TITLES else _prose_in(inner)
    elif isinstance(held, list):
        for item in held:
            yield from _prose_in(item)
    elif isinstance(held, str) and is_sentence(held, MOST_WORDS):
        yield held


def _sentences(value: Any) -> list[str]:
    """Return the texts of a value, of a list, or of a list of chunks. A word alone, such as a tag, is none."""
    held = unfolded(value)
    items = [item for item in (held if isinstance(held, list) else [held]) if not is_nothing(item)]
    names = (*CHUNK_TEXT, *SNIPPET)
    texts = [item[name] for item in items if isinstance(item, Mapping) for name in names if name in item]
    texts += items
    return [text for text in texts if isinstance(text, str) and is_sentence(text)]
