"""Converts the values of people's fields, and lists that a text prints, to texts, ids and chunks."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from rag_zeval.cases.names import (
    CHUNK_ID,
    CHUNK_IN,
    CHUNK_LIST,
    CHUNK_TEXT,
    NOTHING,
    SNIPPET,
    TEXT_PARTS,
    TRUTH_TEXT,
    YES_NO,
    plain_name,
    snake_name,
)
from rag_zeval.cases.printed import printed, printed_chunk, unfolded
from rag_zeval.cases.texts import LABEL, NUMBER, is_flag, is_label, is_title, is_verdict
from rag_zeval.errors import InputError
from rag_zeval.text import is_blank, shell_word

OBJECTS = re.compile(r"\s*(?:\[\s*)?\{")  # the beginning of a printed object, or of a list of them
LOST_OBJECTS = re.compile(r"(?:\s*,?\[object [A-Z]\w*\])+\s*")
SINGLE = (str, Mapping, int, float, Decimal, date, time, timedelta)  # what is no list
SEVERAL = re.compile(r"[|;,]|^\[\S+\s+\S+")  # signs that one text holds several ids


def is_nothing(value: Any) -> bool:
    """Whether a value means that nothing is there: null, NaN, an empty list, blank or invisible text, or `nan`."""
    if isinstance(value, str):
        return value.strip() in NOTHING or is_blank(value)
    if isinstance(value, (list, tuple, set, dict)):
        return not value
    missing = type(value).__name__ in ("NAType", "NaTType")  # pandas' missing values; pandas need not be installed
    return value is None or missing or (isinstance(value, (float, Decimal)) and math.isnan(value))


def is_object(value: Any) -> bool:
    """Whether a value is an object, a list of objects such as chat messages, or a text that prints one of these.

    An object with the field "error" does not count, because it takes the place of an answer. The parts of one text do
    not count, either.
    """
    if isinstance(value, str) and OBJECTS.match(value):
        value = unfolded(value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, Mapping) for item in value) and _joined(value) is None
    return isinstance(value, Mapping) and "error" not in value


def is_list(value: Any) -> bool:
    """Whether a value is a list, or a text that prints one."""
    return isinstance(unfolded(value), list)


def is_several(value: Any) -> bool:
    """Whether a value is a list or an object, or a text that prints one."""
    return isinstance(unfolded(value), (list, Mapping))


def are_labels(texts: Sequence[str]) -> bool:
    """Whether contexts are no texts, but labels, verdicts, yes, no and titles. A title may be a fact, once or twice."""
    are_such = bool(texts) and all(is_no_context(text) or is_title(text) for text in texts)
    return are_such and (len({*texts}) > 1 or len(texts) > 2 or is_no_context(texts[0]))


def label_in(values: Iterable[Any]) -> str | None:
    """Return the first of the chunks in these values if all are labels, verdicts, yes or no. Otherwise return None."""
    with suppress(InputError):
        texts = [text for value in values for text in as_chunks(value)[0]]
        return texts[0] if texts and all(map(is_no_context, texts)) else None
    return None


def is_no_context(text: str) -> bool:
    """Whether a text is a label, a verdict, yes or no, and so no retrieved context."""
    return is_label(text) or is_verdict(text) or is_flag(text) or text.strip().lower() in YES_NO


def as_text(value: Any) -> str | None:
    """Return a value as text. None if it means that nothing is there.

    Numbers and truth values become what Python prints. But 7.0 becomes "7", because pandas holds whole numbers as
    floats if one is missing. A list that holds one text, or the parts of one, is that text. A text that prints a chunk
    or a message of LangChain is read as the text inside. Raises InputError for other lists and for objects.
    """
    value = _decoded(value)
    if isinstance(value, list) and (joined := _joined(value)) is not None:
        value = joined
    if isinstance(value, str) and isinstance(shown := printed_chunk(value), Mapping):
        value = _inner_text(shown)
    return _plain(value)


def _plain(value: Any) -> str | None:
    value = _decoded(value)
    if is_nothing(value):
        return None
    if isinstance(value, str):
        if LOST_OBJECTS.fullmatch(value):
            raise InputError("says '[object Object]', which JavaScript writes in place of an object: export it as JSON")
        return value
    if isinstance(value, (Mapping, Sequence, Set)):
        raise InputError(
            f"must be a text, found {_kind(value)}; if the text is inside, name its place with --map, such as "
            "output.text or outputs.0"
        )
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _joined(items: list[Any]) -> str | None:
    """Return the text of a list that holds one text or null, or the parts into which model APIs split one, or None."""
    if len(items) == 1 and (items[0] is None or isinstance(items[0], str)):
        return items[0] or ""
    with_texts = (item for item in items if isinstance(item, Mapping) and isinstance(item.get("text"), str))
    parts = [{name: value for name, value in item.items() if value is not None} for item in with_texts]
    named = all(part.get("type") in TEXT_PARTS for part in parts)
    if not parts or len(parts) < len(items) or not (named or (len(parts) == 1 and parts[0].keys() == {"text"})):
        return None
    return "".join(part["text"] for part in parts)


def _inner_text(item: Mapping[Any, Any], column: str = "COLUMN") -> Any:
    """Return the text of an object that is a chunk or a message, None if it is empty.

    Raises InputError unless the object holds exactly one text.
    """
    texts = _texts(item)
    if not texts and _is_sentences(item.get("sentences")):
        return " ".join(map(str.strip, item["sentences"]))
    if not texts and any(map(_is_text_name, item)):
        return None
    if len({str(text) for text in texts.values()}) != 1:
        found = " and ".join(texts) or f"only {', '.join(map(str, item)) or 'an empty object'}"
        way_out = f"as in --map {shell_word(f'contexts={_path_of_text(item, column)}')}"
        raise InputError(  # what to do comes first: a long message is cut off
            f"an object does not say which text is the chunk. Name the path of the text, {way_out}, or call it "
            f"one of {', '.join(CHUNK_TEXT[:4])}. Found {found}"
        )
    return next(iter(texts.values()))


def as_id(value: Any) -> str | None:
    """Return an id, or the name of a system or slice, without spaces around it. Numbers are read as in `as_text`.

    Raises InputError for lists and objects.
    """
    text = _plain(value)
    return text if text is None else text.strip()


def as_texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, without nulls.

    The list may be printed in a text, as in a table's cell. Any other text is returned as the only one. Raises
    InputError for an item that is a list or an object.
    """
    texts = [as_text(item) for item in _items(value)]
    return tuple(text for text in texts if text is not None)


def as_ids(value: Any) -> tuple[str, ...]:
    """Return the ids of a list, read as by `as_texts`. Raises InputError for one text that seems to hold several."""
    if isinstance(value, str) and SEVERAL.search(value) and isinstance(printed(value), str):
        raise InputError(f'may hold several ids in one text: write a list, such as ["d1", "d2"]; found {value!r}')
    ids = [as_id(item) for item in _items(value)]
    return tuple(id_ for id_ in ids if id_ is not None)


def is_readable(read: Callable[[Any], object], value: Any) -> bool:
    """Whether a value can be read by one of these functions. `d1, d2` in one text cannot be read by `as_ids`."""
    with suppress(InputError):
        read(value)
        return True
    return False


def look_like_ids(value: Any, or_number: bool = False) -> bool:
    """Whether a value is a text such as `doc_3`, or a list of such texts. or_number: texts of digits count, too."""
    items = unfolded(value)
    texts = items if isinstance(items, list) else [items]
    ids = [text for text in texts if isinstance(text, str) and LABEL.fullmatch(text.strip())]
    return 0 < len(ids) == len(texts) and (or_number or not any(map(NUMBER.fullmatch, ids)))


def is_empty_list(value: Any) -> bool:
    """Whether a value is a list without items, or a text that prints one. Null and a blank text are no list."""
    found = printed(value) if isinstance(value, str) else value
    return isinstance(found, (list, tuple, set)) and not found


def as_chunks(
    value: Any, column: str = "COLUMN", separator: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts and the ids of retrieved chunks, which may be texts or objects.

    separator: a pattern at which a text that prints no list is split into chunks.
    The ids are empty unless every chunk has one. Raises InputError for an object that does not hold exactly one text
    under the names in `names.CHUNK_TEXT`. Its message names the likely path of the text in the column.
    """
    value = unfolded(value)
    while isinstance(value, Mapping) and (held := _held(value)) is not None:
        value = unfolded(held)  # {"citations": [...]}
    items = _items(value)
    if separator and len(items) == 1 and isinstance(items[0], str) and items[0] is value:
        items = re.split(separator, value)
    chunks = [_chunk(one, column) for item in items for one in _unrolled(item)]
    there = [(text, id_) for text, id_ in chunks if text is not None]
    ids = tuple(id_ for _, id_ in there if id_ is not None)
    return tuple(text for text, _ in there), ids if len(ids) == len(there) else ()


def as_truth(value: Any) -> str | None:
    """Return the ground truth, or None. If there are several (see `as_truths`), return the first."""
    return next(as_truths(value), None)


def as_truths(value: Any) -> Iterator[str]:
    """Yield the ground truths of a list, which may be several ways to write one.

    An object holds the ground truth under one of the names in `names.TRUTH_TEXT`.
    """
    for item in _items(value):
        inner = [item[name] for name in TRUTH_TEXT if name in item] if isinstance(item, Mapping) else []
        yield from as_texts(inner[0] if inner else [item])


def has_several_truths(value: Any) -> bool:
    """Whether a value holds several ground truths that differ."""
    with suppress(InputError):
        return len({*as_truths(value)}) > 1
    return False


def _unrolled(item: Any) -> Sequence[Any]:
    """Return the chunks of an object that holds a list of each field, such as the texts and the ids of all chunks.

    `datasets` and Open WebUI write chunks in this form. Any other item is the only one.
    """
    lists = {name: held for name, held in item.items() if isinstance(held, list)} if isinstance(item, Mapping) else {}
    has_texts = any(map(_is_text_name, lists)) or any(map(_is_sentences, lists.get("sentences", ())))
    if not has_texts or len({len(held) for held in lists.values()}) > 1:
        return (item,)
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _is_text_name(name: Any) -> bool:
    return snake_name(str(name)) in (*CHUNK_TEXT, *SNIPPET)


def _is_sentences(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _chunk(item: Any, column: str) -> tuple[str | None, str | None]:
    if isinstance(item, list) and len(item) == 2:
        first, second = item
        if isinstance(first, Mapping) and isinstance(second, (int, float)):  # a chunk and its score
            item = first
        elif isinstance(first, str) and _is_sentences(second):  # HotpotQA: a title and the sentences
            item = {"sentences": second}
    if isinstance(item, str):
        item = printed_chunk(item)
    if isinstance(item, list) and _joined(item) is None:
        raise InputError("must be a list of texts, found a list in it: write each context as one text")
    if not isinstance(item, Mapping):
        return as_text(item), None
    around: list[Any] = []  # the objects that hold the chunk, the innermost first
    while not _texts(item) and (inner := _inside(item)) is not None:
        around.insert(0, item)
        item = inner
    text = _inner_text(item, column)
    if text is None:
        return None, None
    places = [place for place in (item, item.get("metadata"), *around) if isinstance(place, Mapping)]
    ids = [place[name] for place in places for name in CHUNK_ID if not is_nothing(place.get(name))]
    return as_text(text), next((as_id(id_) for id_ in ids if not isinstance(id_, list)), None)  # LangChain: a class


def _path_of_text(item: Mapping[str, Any], column: str) -> str:
    """Return the path to a text inside the chunks of a column, or how to write one.

    If the object itself holds chunks under numbered names, as in `{"doc1": "It is.", "doc2": "So."}`, it leads to all.
    """
    if texts := _texts(item):
        return f"{column}.{next(iter(texts))}"
    numbered = {re.sub("[0-9]+", "*", str(name)) for name in item}
    if len(numbered) == 1 and (pattern := numbered.pop()).count("*") == 1:
        return f"{column}.{pattern}"
    inner = {name: value for name, value in item.items() if isinstance(value, Mapping)}
    paths = [f"{column}.{name}.{last}" for name, value in inner.items() for last in _texts(value)]
    leaves = [path for path, value in _leaves(item, column) if isinstance(value, str)]
    return next(iter(paths or (leaves if len(leaves) == 1 else ())), f"{column}.NAME")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the values inside an object, each with its path. Of a list, this is done for the first item."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], path)
    else:
        yield path, value


def _texts(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that may be a chunk's text, by name. A snippet is one only if there is no other."""
    there = {name: value for name, value in item.items() if not (is_nothing(value) or isinstance(value, Mapping))}
    found = {name: value for name, value in there.items() if snake_name(str(name)) in (*CHUNK_TEXT, *SNIPPET)}
    texts = {name: value for name, value in found.items() if snake_name(str(name)) in CHUNK_TEXT}
    if [*map(snake_name, texts)] == ["document"]:  # which may be the title
        longest = max(found, key=lambda name: len(str(found[name])))
        return {longest: found[longest]}
    return texts or found


def _inside(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((item[name] for name in CHUNK_IN if isinstance(item.get(name), Mapping)), None)


def _held(item: Mapping[str, Any]) -> Any:
    """Return the list, or the object with a list, in which an object that is no chunk holds chunks. Otherwise None."""
    if _texts(item) or _inside(item) is not None:
        return None
    held = [value for name, value in item.items() if plain_name(str(name)) in CHUNK_LIST]
    if len(held) != 1 or not isinstance(held[0], (list, Mapping)):
        return None
    is_wrapped = isinstance(held[0], list) and len(held[0]) == 1 and isinstance(held[0][0], list)  # Chroma, one query
    return held[0][0] if is_wrapped else held[0]


def _items(value: Any) -> Sequence[Any]:
    """Return the items of a list, or of a text that prints one. Any other single value or object is the only item."""
    value = _decoded(value)
    if isinstance(value, str):
        value = printed(value)
    if is_nothing(value):
        return ()
    if isinstance(value, SINGLE):
        return (value,)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return value
    raise InputError(f"must be a list of texts, found {_kind(value)}")


def _decoded(value: Any) -> Any:
    """Return bytes as text: Parquet files of Spark and Impala may not say that their bytes are UTF-8."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return value


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (Sequence, Set)) and not isinstance(value, bytes) else type(value).__name__
