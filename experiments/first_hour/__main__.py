"""`python -m experiments.first_hour profile=...`: what to run on a fresh machine before hours of it are paid for."""

import signal
import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 none failed, 1 one did, 2 bad input, 130 interrupted; with `only`, 3: it cannot run here."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def first_hour() -> int:
        config = load_config("first_hour", argv)
        from experiments.first_hour.checks import run_checks  # after --help

        return run_checks(config, argv)

    return exit_status(first_hour)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
