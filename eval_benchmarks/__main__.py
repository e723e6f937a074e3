"""`python -m eval_benchmarks key=value ...`: score, and print the tables."""

import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 done, 1 a judge gave no score at all, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: bench(argv))


def bench(argv: Sequence[str]) -> int:
    config = load_config("bench", argv)
    from eval_benchmarks.bench import run  # after --help: brings numpy and the scorers

    return run(config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
