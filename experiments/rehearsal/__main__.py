"""`python -m experiments.rehearsal profile=paper`: rehearse the GPU lane on a CPU and print a table of checks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all checks passed, 1 one did not, 2 the input is wrong, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def rehearsal() -> int:
        config = load_config("rehearsal", sys.argv[1:] if argv is None else argv)
        from experiments.rehearsal.rehearse import rehearse  # after --help: brings torch

        return rehearse(config.profile, Path(config.out_dir).resolve())

    return exit_status(rehearsal)


if __name__ == "__main__":
    sys.exit(main())
