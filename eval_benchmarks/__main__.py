"""`python -m eval_benchmarks key=value ...` scores the benchmarks and prints the tables."""

import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str]) -> int:
    """Run the benchmark stage and return its exit status.

    0: done. 1: a judge gave a benchmark no score at all, or `max_cost` is reached. 2: the input is wrong, or there is a
    bug. 130: interrupted.
    """
    return exit_status(lambda: bench(argv))


def bench(argv: Sequence[str]) -> int:
    config = load_config("bench", argv)
    from eval_benchmarks.bench import run  # only now, because --help needs neither numpy nor the scorers

    return run(config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
