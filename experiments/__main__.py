"""`python -m experiments key=value ...`: trains judges, measures them, and compares them."""

import signal
import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str]) -> int:
    """Return the exit status: 0 done, 1 an arm was not trained or measured, 2 the input is wrong, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def experiments() -> int:
        config = load_config("experiments", argv)
        from experiments.run_arms import run_experiment  # after --help: numpy and the scorers load slowly

        return run_experiment(config)

    return exit_status(experiments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
