"""`make hostile`: the promises (no score made up, no row lost, no key shown, no limit passed) under attack, at length.

`ARGS="replies http"` names parts. The counts of a part are printed, and kept in runs/hostile, as it ends.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
import people_files
import scorer_replies
import test_prompts
from findings import Findings

FOLDER = Path("runs/hostile")  # the counts of each part
SIDE_BY_SIDE = 2


PARTS: dict[str, Callable[[], Findings]] = {  # those that take longest first
    "http": hostile_http.run,
    "kills": lambda: killer.run(Path(tempfile.mkdtemp(prefix="kills-"))),
    "replies": lambda: fuzzed_replies.run(1_000_000),
    "money": money.run,
    "encodings": output_encodings.run,
    "leaks": leaks.run,
    "scorers": lambda: scorer_replies.run(500_000),
    "caches": caches.run,
    "documents": documents.run,
    "foreign": foreign_files.run,
    "files": lambda: people_files.run(3_000),
    "long": lambda: long_replies.run(5_000_000),
    "prompts": lambda: test_prompts.run(60_000),
    "whole": lambda: scorer_replies.read_honest(10),
    "honest": lambda: fuzzed_replies.read_honest(200),
}


def play(name: str) -> int:
    """Run one part, print its counts and faults, and keep the counts; how many promises were broken."""
    started = time.monotonic()
    findings = PARTS[name]()
    minutes = round((time.monotonic() - started) / 60, 1)
    counts = {**findings.counts, "faults": len(findings.faults), "minutes": minutes}
    lines = "".join(f"{key:>44}  {value:,}\n" for key, value in counts.items())
    print(f"== {name}\n{lines}", *findings.faults, sep="\n", flush=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return len(findings.faults)


def main() -> int:
    """0, or 1 if a promise was broken; the lines say where. Several parts are run by processes of their own."""
    arguments = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    arguments.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (default: all)")
    given = arguments.parse_args().parts or list(PARTS)
    if unknown := [name for name in given if name not in PARTS]:
        arguments.error(f"there is no part {unknown[0]}; choose from: {', '.join(PARTS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    if len(given) == 1:
        return bool(play(given[0]))
    started = time.monotonic()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        ends = list(pool.map(lambda name: subprocess.run([sys.executable, __file__, name]).returncode, given))
    counts = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in given}
    result = {**counts, "minutes": round((time.monotonic() - started) / 60, 1)}
    (FOLDER / "result.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    broken = [name for name, end in zip(given, ends, strict=True) if end]
    print(
        f"{'promises broken in ' + ', '.join(broken) if broken else 'all promises held'}; {result['minutes']} minutes"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
