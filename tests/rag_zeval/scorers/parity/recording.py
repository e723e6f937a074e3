"""The file of a recorder: invented instances with what a judge decides about them, and what the original gave.

The instances are data: edit them there, then record again.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DECIMALS = 12  # of a score: what is left of rounding by another processor


def instances_of(name: str) -> list[dict[str, Any]]:
    recorded: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{name}.json").read_text())
    return recorded["instances"]


def record(
    name: str, packages: Sequence[str], substituted: Sequence[str], scores: Mapping[str, Mapping[str, float | None]]
) -> None:
    """Write the scores into `<name>.json`; with `--check` on the command line, compare them with what is there.

    packages: whose versions are noted; substituted: pieces of the original that were replaced, in words.
    scores: of the original, by OUR measure's name and the instance's id; NaN and None are null: it gave none.
    With --check, exits with 1 and a line on stderr where the file differs.
    """
    instances = instances_of(name)
    written = {measure: {id_: _number(value) for id_, value in of.items()} for measure, of in scores.items()}
    head: dict[str, Any] = {
        "packages": {package: version(package) for package in packages},
        "substituted": list(substituted),
    }
    parts = [
        *(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()),
        f'"instances": {_lines([json.dumps(one) for one in instances], "[]")}',
        f'"scores": {_lines((f"{json.dumps(key)}: {json.dumps(value)}" for key, value in written.items()), "{}")}',
    ]
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    path = FOLDER / f"{name}.json"
    if "--check" not in sys.argv[1:]:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"error: {path.name} is not what the original gives now; record it again and look at the difference")
    print(f"{name}: {len(instances)} instances, {len(scores)} measures, {head['packages']}")


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), DECIMALS)


def _lines(items: Iterable[str], brackets: str) -> str:
    return f"{brackets[0]}\n" + ",\n".join(items) + f"\n{brackets[1]}"
