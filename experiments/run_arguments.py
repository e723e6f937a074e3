"""The command line of studies of training runs: `RUN [RUN ...] [key=value ...]`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.errors import InputError, nearest


def read_arguments(argv: Sequence[str], usage: str) -> tuple[list[Path], dict[str, str]]:
    """The folders of the runs, and the value of each key that is given; `--help` prints the usage and exits.

    usage: the keys are those that begin a line of it, such as `out_dir=FOLDER`. A word is a setting if it begins with
    lower-case letters and `=`; every other word is a folder. Raises InputError for an unknown key, a key without a
    value, and an option with dashes.
    """
    if {"-h", "--help"} & set(argv):
        print(usage, end="")
        sys.exit(0)
    keys = re.findall(r"^([a-z_]+)=", usage, re.M)
    paths, settings = [], {}
    for word in argv:
        if word.startswith("-"):
            raise InputError(f"command line: unknown option '{word}'; write a setting as key=value, without dashes")
        if not re.match(r"[a-z_]+=", word):
            paths.append(Path(word))
            continue
        key, value = word.split("=", 1)
        if key not in keys:
            raise InputError(f"command line: unknown key '{key}'{nearest(key, keys)}")
        if not value:
            raise InputError(f"command line: '{word}' has no value")
        settings[key] = value
    return paths, settings
