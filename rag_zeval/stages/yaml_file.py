"""YAML that others wrote: plain values, without what makes a small file large or slow to read."""

import math
from pathlib import Path
from typing import Any

import yaml

from rag_zeval.errors import InputError
from rag_zeval.files import check_regular, locate

LONGEST_NUMBER = 300  # characters
DEEPEST = 100  # brackets in brackets
INT, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, of which ten lines can make a billion values, and numbers that are none or take minutes."""

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


def _finite(loader: _PlainLoader, node: yaml.ScalarNode) -> float:
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        raise yaml.YAMLError(f"{node.value} is not a number")
    return value


_PlainLoader.add_constructor(FLOAT, _finite)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The keys and values of a YAML file, as they are written.

    Raises InputError, naming the file, for what is no YAML, has aliases, or holds something else than keys with values.
    """
    path = Path(path)
    check_regular(path)
    try:
        values: Any = yaml.load(path.read_text(encoding="utf-8"), _PlainLoader)
    except (yaml.YAMLError, OSError, UnicodeDecodeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())[:200]}") from error
    with locate(path):
        if not isinstance(values, dict):
            raise InputError(f"expected keys with values, found {type(values).__name__}")
    return values
