"""`make hostile`: the three promises (no score made up, no row lost, no key shown) under attack, at length.

`ARGS="replies http"` names parts. The counts are printed, and put into runs/hostile/result.json as a part ends.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzzed_replies
import hostile_http
import killer
import long_replies
import test_prompts
from honest_replies import WHOLE, honest

RESULT = Path("runs/hostile/result.json")
EACH = 200  # honest replies of each kind


def read_honest(before: Callable[..., Any] | None = None) -> tuple[dict[str, int | float], list[str]]:
    """How many whole replies of each kind are read, and were read `before`, by an older parser."""
    found = honest(EACH)
    counts: dict[str, int | float] = {}
    faults = []
    for kind in WHOLE:
        counts[kind] = found[kind, "read"]
        if found[kind, "read"] < EACH:
            faults.append(f"honest: {kind}: {found[kind, 'read']} of {EACH} replies read")
    older: Counter[tuple[str, str]] = honest(EACH, before) if before else Counter()
    for kind in WHOLE if before else ():
        counts[f"{kind}, before"] = older[kind, "read"]
    return counts, faults


Part = Callable[[], tuple[dict[str, int | float], list[str]]]
PARTS: dict[str, Part] = {
    "replies": lambda: fuzzed_replies.run(1_000_000),
    "long": lambda: long_replies.run(5_000_000),
    "prompts": lambda: test_prompts.run(60_000),
    "http": hostile_http.run,
    "kills": lambda: killer.run(Path(tempfile.mkdtemp(prefix="kills-"))),
    "honest": read_honest,
}


def parser_of(revision: str) -> Callable[..., Any]:
    """The lenient parser as it was in a revision of this repository."""
    show = ["git", "show", f"{revision}:rag_zeval/judge/parser.py"]
    source = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    module = types.ModuleType("older_parser")
    exec(compile(source, f"parser.py of {revision}", "exec"), module.__dict__)
    parse: Callable[..., Any] = module.__dict__["parse_lenient"]
    return parse


def main() -> int:
    """0, or 1 if a promise was broken; the lines say where."""
    arguments = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    arguments.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    arguments.add_argument("--before", metavar="REVISION", help="read the honest replies with its parser, too")
    given = arguments.parse_args()
    if unknown := [name for name in given.parts if name not in PARTS]:
        arguments.error(f"there is no part {unknown[0]}; there is: {', '.join(PARTS)}")
    parts = dict(PARTS)
    if given.before:
        parts["honest"] = lambda: read_honest(parser_of(given.before))
    result: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    broken = 0
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    for name in given.parts or PARTS:
        started = time.monotonic()
        counts, faults = parts[name]()
        result[name] = {**counts, "faults": len(faults), "minutes": round((time.monotonic() - started) / 60, 1)}
        print(f"== {name}")
        print("".join(f"{key:>44}  {value:,}\n" for key, value in result[name].items()), *faults, sep="\n", flush=True)
        RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        broken += len(faults)
    print(f"{'all promises held' if not broken else f'{broken} promises broken'}; counts: {RESULT}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
