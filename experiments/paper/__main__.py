"""`python -m experiments.paper key=value ...`: fills the paper's tables, and trains and runs what they need."""

import sys

from omegaconf import DictConfig

from rag_zeval.stages.command import stage_main


def paper(config: DictConfig) -> int:
    """Run the stage. Returns 0: done; 1: a training or a run of the bench failed."""
    from experiments.paper.run_tables import run_tables  # after --help: slow, as it imports the scorers

    return run_tables(config)


main = stage_main("paper", paper)

if __name__ == "__main__":
    sys.exit(main())
