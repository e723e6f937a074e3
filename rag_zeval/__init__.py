"""The library of RAG-Zeval: judges, models, scorers, files, reports and commands.

The stages of the pipeline, such as `synthesize` and `train`, are packages beside this one.
"""

from __future__ import annotations

import signal
import sys

# If a command of ours is starting, Ctrl-C ends it without a traceback until `streams.exit_status` takes over. This
# comes first because imports take time. Other programs are not affected. While Python looks for the module of
# `python -m`, argv[0] is "-m", and orig_argv has the module's name before the arguments.
if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN and (
    sys.argv[0].endswith("/rag-zeval")
    or (
        sys.argv[0] == "-m"
        and sys.orig_argv[-len(sys.argv)].removeprefix("-m").partition(".")[0]
        in ("rag_zeval", "eval_benchmarks", "experiments", "synthesize", "train")
    )
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_zeval.audit.corrected_table import corrected_scores
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.decisions.assertions import assert_supported
    from rag_zeval.errors import InputError
    from rag_zeval.evaluation.api import aevaluate, evaluate
    from rag_zeval.judge.evaluator import Evaluation, Evaluator
    from rag_zeval.judge.example import Example
    from rag_zeval.models.open import open_backend
    from rag_zeval.results import read_judged

__version__ = "0.1.0"
__all__ = [
    "Evaluation", "Evaluator", "Example", "InputError", "aevaluate", "assert_supported", "corrected_scores",
    "evaluate", "open_backend", "read_cases", "read_judged",
]  # fmt: skip
PLACES = {
    "Example": "rag_zeval.judge.example",
    "InputError": "rag_zeval.errors",
    "aevaluate": "rag_zeval.evaluation.api",
    "assert_supported": "rag_zeval.decisions.assertions",
    "corrected_scores": "rag_zeval.audit.corrected_table",
    "evaluate": "rag_zeval.evaluation.api",
    "open_backend": "rag_zeval.models.open",
    "read_cases": "rag_zeval.cases.reading",
    "read_judged": "rag_zeval.results",
}


def __getattr__(name: str) -> Any:  # imports a name on its first use, so `import rag_zeval` is fast
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PLACES.get(name, "rag_zeval.judge.evaluator")), name)


def __dir__() -> list[str]:  # what a notebook offers after `rag_zeval.`
    return sorted({*globals(), *__all__})
