"""The `main` of a stage, for `python -m STAGE key=value ...`."""

import signal
import sys
import threading
from collections.abc import Callable, Sequence

from omegaconf import DictConfig

from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status


def stage_main(stage: str, run: Callable[[DictConfig], int]) -> Callable[..., int]:
    """Return the `main` of a stage. It reads the stage's configuration, and returns the exit status that `run` returns.

    `main` takes words `key=value`; by default those after `python -m STAGE`. It returns 2 for wrong input or a bug, and
    130 after Ctrl-C. SIGTERM ends the stage as Ctrl-C does, so that none of its processes is left behind.

        main = stage_main("train", train)  # train: returns 0 if it trained, 1 if it failed
        sys.exit(main())
    """

    def main(words: Sequence[str] | None = None) -> int:
        if threading.current_thread() is threading.main_thread():  # no other thread may set a handler
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        return exit_status(lambda: run(load_config(stage, sys.argv[1:] if words is None else words)))

    return main
