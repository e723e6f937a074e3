"""`python -m experiments.paper key=value ...`: fills the paper's tables, and trains and runs what they need."""

import sys
from collections.abc import Sequence

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 done, 1 a training or a run of the bench failed, 2 wrong input, 130 interrupted."""
    return exit_status(lambda: paper(sys.argv[1:] if argv is None else argv))


def paper(words: Sequence[str]) -> int:
    config = load_config("paper", words)
    from experiments.paper.run_tables import run_tables  # after --help: slow, as it imports the scorers

    return run_tables(config)


if __name__ == "__main__":
    sys.exit(main())
