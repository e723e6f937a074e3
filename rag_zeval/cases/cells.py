"""Converts the values of people's fields to texts, ids and chunks.

It reads lists as JSON, Python, numpy and pandas print them, and chunks that are objects. It never evaluates code in a
value. It rejects a text that begins like a list but cannot be read as one: such a text is never judged as it is.
"""

import ast
import io
import json
import math
import re
import tokenize
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any

from rag_zeval.cases.names import CHUNK_ID, CHUNK_TEXT, NOTHING
from rag_zeval.errors import InputError
from rag_zeval.files import MOST_DIGITS
from rag_zeval.text import is_blank

# Only a printed list or object begins like this.
LISTS = re.compile(r"""(?:array\(|[\[{])\s*(?:["'\[{(]|nan\b|None\b|array\(|np\.\w+\(|\w+\(\w+=)""")
TUPLES = re.compile(r"""\(\s*["']""")  # an ordinary text may begin like this, too: ("The Act") means ...
OBJECTS = re.compile(r"\s*(?:\[\s*)?\{")  # the beginning of a printed object, or of a list of them
# What Python prints for an object. An ordinary text does not look like this.
PRINTED = re.compile(
    r"""<[\w.]+\ .*\bat\ 0x[0-9a-fA-F]+>\Z         # <generator object f at 0x7f>
    | \w+=(["']).*\1\ \w+=                       # content='It is.' response_metadata={}
    | (?:[A-Z]\w*|deque|dict_\w+)\((?:\w+=|\[).*\)\Z  # AIMessage(content='It is.'), dict_values(['It is.'])""",
    re.DOTALL | re.VERBOSE,
)
SERIES = re.compile(r"\ndtype: \w+\Z")  # the end of a printed pandas Series
SKIPPED = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
VALUES = (tokenize.STRING, tokenize.NUMBER)
SINGLE = (str, Mapping, int, float, Decimal, date, time, timedelta)  # what is no list
SEVERAL = re.compile(r"[|;,]|^\[\S+\s+\S+")  # signs that one text holds several ids
LARGEST = 10**MOST_DIGITS  # whole numbers are smaller; Python does not print much larger ones
MOST_FIELDS = 200  # characters of an object's fields in an error
MOST_SHOWN = 40  # characters of a value in an error


def is_nothing(value: Any) -> bool:
    """Whether a value means that nothing is there: null, NaN, an empty list, blank or invisible text, or `nan`."""
    if isinstance(value, str):
        return value.strip() in NOTHING or is_blank(value)
    if isinstance(value, (list, tuple, set, dict)):
        return not value
    missing = type(value).__name__ in ("NAType", "NaTType")  # pandas' missing values; pandas need not be installed
    return value is None or missing or (isinstance(value, float) and math.isnan(value))


def is_object(value: Any) -> bool:
    """Whether a value is an object, a list of objects such as chat messages, or a text that prints one of these.

    An object with the field "error" does not count, because it takes the place of an answer.
    """
    if isinstance(value, str) and OBJECTS.match(value):
        value = unfolded(value)
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, Mapping) for item in value)
    return isinstance(value, Mapping) and "error" not in value


def prints_object(text: str, or_list: bool) -> bool:
    """Whether a text is what Python prints for an object; with `or_list`, also whether it prints a list."""
    if PRINTED.match(text) or SERIES.search(text, max(0, len(text) - MOST_SHOWN)):
        return True
    return or_list and not isinstance(unfolded(text), str)


def unquoted(value: Any) -> Any:
    """Return the text of a JSON string, such as `It is.` for `"It is."`. Other values are returned unchanged.

    Databases export a column of JSON in this form.
    """
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            found = json.loads(value)
            return found if isinstance(found, str) else value
    return value


def as_text(value: Any) -> str | None:
    """Return a value as text. None if it means that nothing is there.

    Numbers and truth values become what Python prints. Raises InputError for lists and objects.
    """
    value = _decoded(value)
    if is_nothing(value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (Mapping, Sequence, Set)):
        raise InputError(
            f"must be a text, found {_kind(value)}; if the text is inside, name its place, as in "
            "--map answer=output.text or --map answer=outputs.0"
        )
    return str(value)


def as_id(value: Any) -> str | None:
    """Return an id as text. 7.0 becomes "7", because a column of whole numbers with a gap is read as floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return as_text(value)


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


def unfolded(value: Any) -> Any:
    """Return the list or object that a text prints (see `printed`). Any other value is returned unchanged."""
    if isinstance(value, str):
        with suppress(InputError):
            return printed(value)
    return value


def is_empty_list(value: Any) -> bool:
    """Whether a value is a list without items, or a text that prints one. Null and a blank text are no list."""
    found = printed(value) if isinstance(value, str) else value
    return isinstance(found, (list, tuple, set)) and not found


def as_chunks(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts and the ids of retrieved chunks, which may be texts or objects.

    The ids are empty unless every chunk has one. Raises InputError for an object that does not hold exactly one text
    under the names in `names.CHUNK_TEXT`.
    """
    chunks = [_chunk(item) for item in _items(value)]
    there = [(text, id_) for text, id_ in chunks if text is not None]
    ids = tuple(id_ for _, id_ in there if id_ is not None)
    return tuple(text for text, _ in there), ids if len(ids) == len(there) else ()


def as_truth(value: Any) -> str | None:
    """Return the ground truth, or None. If there are several ways to write it, return the first."""
    return next(iter(as_texts(value)), None)


def _chunk(item: Any) -> tuple[str | None, str | None]:
    if not isinstance(item, Mapping):
        return as_text(item), None
    if "node" in item and isinstance(item["node"], Mapping):  # LlamaIndex: NodeWithScore
        item = item["node"]
    texts = {name: item[name] for name in CHUNK_TEXT if not is_nothing(item.get(name))}
    if not texts and any(name in item for name in CHUNK_TEXT):
        return None, None
    if len({str(text) for text in texts.values()}) != 1:
        found = " and ".join(texts) or f"only {', '.join(map(str, item)) or 'an empty object'}"[:MOST_FIELDS]
        raise InputError(
            f"a chunk that is an object must have its text in one of {', '.join(CHUNK_TEXT)}; found {found}. "
            "If the text is elsewhere, name its path, as in --map contexts=hits._source.text"
        )
    metadata = item.get("metadata")
    places = [item, *([metadata] if isinstance(metadata, Mapping) else [])]
    ids = [as_id(place[name]) for place in places for name in CHUNK_ID if not is_nothing(place.get(name))]
    return as_text(next(iter(texts.values()))), ids[0] if ids else None


def _items(value: Any) -> Sequence[Any]:
    """Return the items of a list, or of a text that prints one. Any other single value or object is the only item."""
    value = _decoded(value)
    if isinstance(value, str):
        value = printed(value)
    if is_nothing(value):
        return ()
    if isinstance(value, SINGLE):
        return (value,)
    if isinstance(value, Set):
        return sorted(value, key=str)  # a set has no order of its own
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return value
    raise InputError(f"must be a list of texts, found {_kind(value)}")


def printed(text: str) -> Any:
    """Return the list or object that a text prints, or else the text itself.

    Reads JSON, also if it was encoded twice. Reads Python's lists, tuples and sets, numpy's `['a' 'b']` and
    `array(['a'])`, and LangChain's `[Document(page_content='a')]`.
    Raises InputError for a text that begins like one of those but cannot be read as one. Only a text that begins with
    "(" is then returned as it is.
    """
    bare = text.strip()
    if not bare or bare[0] not in '[({"a':
        return text
    try:
        value = json.loads(bare, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        pass
    else:
        if isinstance(value, str):  # a list that was encoded as JSON twice
            inner = printed(value)
            return text if isinstance(inner, str) else inner
        return value if isinstance(value, (list, dict)) else text
    if not (LISTS.match(bare) or TUPLES.match(bare)):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes
            value = _literal(ast.parse(_with_commas(bare), mode="eval").body)
            return text if isinstance(value, str) else value
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        if bare[0] == "(":
            return text
        shown = bare[:MOST_SHOWN] + ("…" if len(bare) > MOST_SHOWN else "")
        raise InputError(f"looks like a list but cannot be read as one; was it cut off?: {shown!r}") from error


def _with_commas(text: str) -> str:
    """Return the text with commas between the items of a numpy array, such as `['a' 'b']`.

    Without commas, Python would join the items to one text. Raises ValueError for a tuple, and if only some items are
    separated by commas, because the meaning is then unclear.
    """
    text = re.sub("\r\n?", "\n", text)  # `tokenize` does not take \r for the end of a line, but Python's parser does
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in SKIPPED]
    gaps = [at for at, (one, two) in enumerate(pairwise(tokens)) if one.type in VALUES and two.type in VALUES]
    if not gaps:
        return text
    if text[0] == "(" or any(token.string == "," for token in tokens):
        raise ValueError("some items are separated by commas and some are not")
    starts = [0, *accumulate(map(len, io.StringIO(text)))]  # of the lines
    ends = [starts[row - 1] + column for row, column in (tokens[at].end for at in gaps)]
    return ",".join(text[start:end] for start, end in pairwise([0, *ends, len(text)]))


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, or of the call that prints an array or a chunk. Raises ValueError otherwise."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, float))):
        return node.value
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value < LARGEST:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = _literal(node.operand)
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.Name) and node.id in ("nan", "null", "NaN", "NaT"):
        return None
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return node.id == "true"
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_literal(key): _literal(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if len(node.args) == 1 and (called == "array" or called.startswith("np.")):
            return _literal(node.args[0])
        if node.keywords and not node.args:
            return {word.arg: _argument(word.value) for word in node.keywords if word.arg}
    raise ValueError("no literal")


def _argument(node: ast.expr) -> Any:
    """Return the value of an argument of a printed object, or None if it is not a literal."""
    try:
        return _literal(node)
    except ValueError:
        return None


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
