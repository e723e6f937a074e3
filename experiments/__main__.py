"""`python -m experiments key=value ...`: trains judges, measures them, and compares them."""

import sys

from omegaconf import DictConfig

from rag_zeval.stages.command import stage_main


def experiments(config: DictConfig) -> int:
    """Run the stage. Returns 0: done; 1: an arm was not trained or measured."""
    from experiments.run_arms import run_experiment  # after --help: numpy and the scorers load slowly

    return run_experiment(config)


main = stage_main("experiments", experiments)

if __name__ == "__main__":
    sys.exit(main())
