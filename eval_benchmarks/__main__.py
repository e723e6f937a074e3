"""`python -m eval_benchmarks key=value ...`: score, and print the tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rag_zeval.config import load_config
from rag_zeval.errors import InputError


def main(argv: Sequence[str]) -> int:
    """Run the stage; 0, or 2 after one line on stderr for input that cannot be used."""
    try:
        config = load_config("bench", argv)
        from eval_benchmarks.bench import run  # after --help: brings numpy and the scorers

        run(config)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
