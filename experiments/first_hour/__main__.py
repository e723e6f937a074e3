"""`python -m experiments.first_hour profile=...` checks a fresh machine before you pay for hours of it."""

import signal
import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str]) -> int:
    """Return the exit status: 0 no check failed, 1 one failed, 2 wrong input, 130 interrupted.

    With `only`, 3 means that the check cannot run here.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def first_hour() -> int:
        config = load_config("first_hour", argv)
        from experiments.first_hour.checks import run_checks  # after --help

        return run_checks(config, argv)

    return exit_status(first_hour)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
