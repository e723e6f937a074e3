"""`make hostile`: the promises (no score made up, no row lost, no key shown, no limit passed) under attack, at length.

`ARGS="replies http"` names parts. The counts are printed, and put into runs/hostile/result.json as a part ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import caches
import documents
import foreign_files
import fuzzed_replies
import hostile_http
import killer
import leaks
import long_replies
import money
import output_encodings
import scorer_replies
import test_prompts
from findings import Findings
from fuzzed_replies import honest

RESULT = Path("runs/hostile/result.json")
EACH = 200  # honest replies of each kind


def read_honest() -> Findings:
    """How many whole replies of each kind are read; of each kind all must be."""
    findings = Findings("honest")
    for (kind, end), count in honest(EACH).items():
        findings.counts[kind] += count * (end == "read")
        findings.note("not read", kind, [f"{count} of {EACH} {end}"] if end != "read" else [])
    return findings


PARTS: dict[str, Callable[[], Findings]] = {
    "replies": lambda: fuzzed_replies.run(1_000_000),
    "scorers": lambda: scorer_replies.run(500_000),
    "whole": lambda: scorer_replies.read_honest(10),
    "long": lambda: long_replies.run(5_000_000),
    "prompts": lambda: test_prompts.run(60_000),
    "http": hostile_http.run,
    "caches": caches.run,
    "documents": documents.run,
    "foreign": foreign_files.run,
    "leaks": leaks.run,
    "encodings": output_encodings.run,
    "kills": lambda: killer.run(Path(tempfile.mkdtemp(prefix="kills-"))),
    "money": money.run,
    "honest": read_honest,
}


def main() -> int:
    """0, or 1 if a promise was broken; the lines say where."""
    arguments = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    arguments.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    given = arguments.parse_args()
    if unknown := [name for name in given.parts if name not in PARTS]:
        arguments.error(f"there is no part {unknown[0]}; there is: {', '.join(PARTS)}")
    result: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    broken = 0
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    for name in given.parts or PARTS:
        started = time.monotonic()
        findings = PARTS[name]()
        faults, minutes = findings.faults, round((time.monotonic() - started) / 60, 1)
        result[name] = {**findings.counts, "faults": len(faults), "minutes": minutes}
        print(f"== {name}")
        print("".join(f"{key:>44}  {value:,}\n" for key, value in result[name].items()), *faults, sep="\n", flush=True)
        RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        broken += len(faults)
    print(f"{'all promises held' if not broken else f'{broken} promises broken'}; counts: {RESULT}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
