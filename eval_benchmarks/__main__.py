"""`python -m eval_benchmarks key=value ...` scores the benchmarks and prints the tables."""

import sys

from omegaconf import DictConfig

from rag_zeval.stages.command import stage_main


def bench(config: DictConfig) -> int:
    """Run the stage. Returns 0: done; 1: a judge gave a benchmark no score at all, or `max_cost` is reached."""
    from eval_benchmarks.bench import run  # only now, because --help needs neither numpy nor the scorers

    return run(config)


main = stage_main("bench", bench)

if __name__ == "__main__":
    sys.exit(main())
