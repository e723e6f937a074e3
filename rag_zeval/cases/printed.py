"""Reads lists and objects that a text prints, as JSON, Python, numpy, pandas and LangChain do.

It never evaluates code in a text. It rejects a text that begins like a list but cannot be read as one: such a text is
never judged as it is.
"""

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Mapping
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

from rag_zeval.cases.names import CHUNK_IN, CHUNK_TEXT
from rag_zeval.errors import InputError
from rag_zeval.files import MOST_DIGITS

# Only a printed list or object begins like this.
LISTS = re.compile(r"""(?:array\(|[\[{])\s*(?:["'\[{(]|nan\b|None\b|array\(|np\.\w+\(|\w+\(\w+=)""")
TUPLES = re.compile(r"""\(\s*["']""")  # an ordinary text may begin like this, too: ("The Act") means ...
# What Python prints for an object. An ordinary text does not look like this.
PRINTED = re.compile(
    r"""<[\w.]+\ .*\bat\ 0x[0-9a-fA-F]+>\Z         # <generator object f at 0x7f>
    | \w+=(["']).*\1\ \w+=                       # content='It is.' response_metadata={}
    | (?:[A-Z]\w*|deque|dict_\w+)\((?:\w+=|\[).*\)\Z  # AIMessage(content='It is.'), dict_values(['It is.'])""",
    re.DOTALL | re.VERBOSE,
)
# What LangChain prints for a chunk or a message: page_content='It is.' metadata={}, or Document(page_content='It is.').
SHOWN = re.compile(r"""(page_content|content|text)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?:\ \w+=|\Z)""", re.DOTALL)
CALL = re.compile(r"[A-Z]\w*\(\w+=.*\)\Z", re.DOTALL)
STRING_OR_ENUM = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|<\w+\.\w+: [^<>]*>""", re.DOTALL)
SERIES = re.compile(r"\ndtype: \w+\Z")  # the end of a printed pandas Series
SKIPPED = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
VALUES = (tokenize.STRING, tokenize.NUMBER)
LARGEST = 10**MOST_DIGITS  # whole numbers are smaller; Python does not print much larger ones
MOST_SHOWN = 40  # characters of a value in an error


def unfolded(value: Any) -> Any:
    """Return the list or object that a text prints (see `printed`). Any other value is returned unchanged."""
    if isinstance(value, str):
        with suppress(InputError):
            return printed(value)
    return value


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
        # LlamaIndex prints nodes with members of enumerations, such as <ObjectType.TEXT: '1'>
        value = _evaluated(_with_commas(STRING_OR_ENUM.sub(lambda match: match[1] or "None", bare)))
        return text if isinstance(value, str) else value
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
        if bare[0] == "(":
            return text
        shown = bare[:MOST_SHOWN] + ("…" if len(bare) > MOST_SHOWN else "")
        raise InputError(f"looks like a list but cannot be read as one; was it cut off?: {shown!r}") from error


def unquoted(value: Any) -> Any:
    """Return the text of a JSON string, such as `It is.` for `"It is."`. Other values are returned unchanged.

    Databases export a column of JSON in this form.
    """
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            found = json.loads(value)
            return found if isinstance(found, str) else value
    return value


def prints_object(text: str, or_list: bool) -> bool:
    """Whether a text is what Python prints for an object; with `or_list`, also whether it prints a list."""
    if PRINTED.match(text) or SERIES.search(text, max(0, len(text) - MOST_SHOWN)):
        return True
    return or_list and not isinstance(unfolded(text), str)


def printed_chunk(text: str) -> Any:
    """Return the object that a text prints, if it is a chunk or a message; otherwise the text itself."""
    bare = text.strip()
    found: Any = None
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        if match := SHOWN.match(bare):
            if re.search(rf"\s{match[1]}=", bare):  # several, joined to one text
                return text
            found = {match[1]: _evaluated(match[2])}
        elif CALL.match(bare):
            found = _evaluated(bare)
    return found if isinstance(found, Mapping) and any(name in found for name in (*CHUNK_TEXT, *CHUNK_IN)) else text


def _evaluated(text: str) -> Any:
    """Return the value of a literal in Python, see `_literal`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes
        return _literal(ast.parse(text, mode="eval").body)


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
