"""Reads YAML that others wrote, refuses what makes a small file large or slow to read, and checks the values."""

import math
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rag_zeval.errors import InputError, nearest
from rag_zeval.files import check_regular, locate, readable
from rag_zeval.text import one_line

Settings = TypeVar("Settings", bound=BaseModel)
LARGEST = 1 << 20  # bytes of a file
LONGEST_NUMBER = 300  # characters
DEEPEST = 100  # levels of nested brackets
SHOWN = 200  # characters of a value in a message
INT, FLOAT, MERGE, NULL = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "merge", "null"))


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, since ten lines of them can make a billion values, and brackets that are nested too deep.

    It also refuses numbers that are not finite or take minutes to read, and duplicate keys, whose first value YAML
    would silently drop.
    """

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level == DEEPEST:
            raise yaml.YAMLError(f"brackets are nested more than {DEEPEST} deep")
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read: write the value again")
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and node.tag in (INT, FLOAT) and len(node.value) > LONGEST_NUMBER:
            raise yaml.YAMLError(f"a number has more than {LONGEST_NUMBER} characters")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        scalars = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE)
        keys = Counter(map(self.construct_object, scalars))
        for key, count in keys.most_common(1):
            if count > 1:
                raise yaml.YAMLError(f"duplicate key '{key}': remove one")
        return super().construct_mapping(node, deep)


def _finite(loader: _PlainLoader, node: yaml.ScalarNode) -> float:
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        raise yaml.YAMLError(f"{node.value} is not a number")
    return value


_PlainLoader.add_constructor(FLOAT, _finite)


class _TextLoader(_PlainLoader):
    """Reads every single value as the text that is written: `yes` is no flag, `2026-01-31` no date, `1.10` not 1.1."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag == NULL]
        for first, known in _PlainLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Return the keys and values of a YAML file.

    Raises InputError, naming the file, if it is no YAML, has aliases or more than LARGEST bytes, or holds anything
    other than keys with values.
    """
    path = Path(path)
    values = _loaded(path, _PlainLoader)
    with locate(path):
        if not isinstance(values, dict):
            found = {type(None): "nothing", list: "a list"}.get(type(values), "a single value")
            raise InputError(f"expected keys with values, found {found}")
    return values


def read_yaml_texts(path: Path) -> Any:
    """Return what a YAML file holds: lists and dicts of texts, and None. Numbers, flags and dates stay texts.

    Raises InputError, naming the file, if it is no YAML, or has aliases or more than LARGEST bytes.
    """
    return _loaded(path, _TextLoader)


def _loaded(path: Path, loader: type[_PlainLoader]) -> Any:
    check_regular(path)
    with readable(path), path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        if len(content) > LARGEST:
            raise ValueError(f"the file has more than {LARGEST:,} bytes")
        return yaml.load(content.decode("utf-8"), loader)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8") from error
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
        said = " ".join(str(error).split())[:SHOWN].replace('in "<unicode string>", ', "at ")
        hint = "; put a text with ': ' in it into quotation marks" if "mapping values" in said else ""
        raise InputError(f"{path}: cannot be read as YAML: {said}{hint}") from error


def checked(kind: type[Settings], values: Any) -> Settings:
    """Return the values as a pydantic model.

    Raises InputError for the first value that does not fit. It names the key, what the value must be and what it is.
    Items of a list are counted from 1. A field's description ends the sentence "must be ..."; without one, pydantic
    says what is wrong.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(_first_fault(kind, error)) from error


def _first_fault(kind: type[BaseModel], error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])  # `rule` for `rules`
    keys, wanted, part = [], None, kind
    item = ""
    for key in first["loc"]:
        if isinstance(key, int) and get_origin(part) is list and hasattr(get_args(part)[0], "model_fields"):
            keys.append(str(key + 1))
            part = get_args(part)[0]
            continue
        fields = getattr(part, "model_fields", {})
        if first["type"] == "extra_forbidden" and fields and key not in fields:
            name = ".".join([*keys, str(key)])
            return f"unknown key '{name}'{nearest(str(key), fields)}; the keys are {', '.join(fields)}"
        field = fields.get(key)
        if field is None:  # a place within the value
            item = f"; item {key + 1} does not fit" if isinstance(key, int) else ""
            break
        keys.append(str(key))
        wanted, part = field.description, field.annotation
    name, value = ".".join(keys), first["input"]
    if first["type"] == "value_error":
        own = first["ctx"]["error"]
        return f"{name}: {own}" if name else str(own)  # a check of several keys names them itself
    if wanted and get_origin(part) is list:  # the value may be a URL with a key: do not show it
        return f"{name}: must be {wanted}{item}"
    if first["type"] == "missing":
        return f"{name}: is missing; it must be {wanted}" if wanted else f"{name}: {first['msg']}"
    shown = "null" if value is None else one_line(str(value)[:SHOWN]) or "nothing"
    if first["type"] == "invalid_key":
        return f"{name}: a key must be a text, found {shown}".removeprefix(": ")
    return f"{name}: {f'must be {wanted}' if wanted else first['msg']}, found {shown}"
