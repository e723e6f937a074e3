"""RAG-Zeval, a compact judge of RAG answers: the contract and the evaluator. The stages stand beside this package."""

from __future__ import annotations

import signal
import sys

# A command of ours starts (Python says "-m" while it looks for the module): until `streams.exit_status` takes over,
# Ctrl-C ends it without a traceback. First of all, since all that is imported takes time; nothing changes elsewhere.
if sys.argv[0].endswith(("-m", "/rag-zeval")) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_zeval.audit.corrected_table import corrected_scores
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.decisions.assertions import assert_supported
    from rag_zeval.evaluation.api import aevaluate, evaluate
    from rag_zeval.judge.evaluator import Evaluation, Evaluator
    from rag_zeval.judge.example import Example
    from rag_zeval.models.open import open_backend
    from rag_zeval.results import read_judged

__version__ = "0.1.0"
__all__ = [
    "Evaluation", "Evaluator", "Example", "aevaluate", "assert_supported", "corrected_scores", "evaluate",
    "open_backend", "read_cases", "read_judged",
]  # fmt: skip
PLACES = {
    "Example": "rag_zeval.judge.example",
    "aevaluate": "rag_zeval.evaluation.api",
    "assert_supported": "rag_zeval.decisions.assertions",
    "corrected_scores": "rag_zeval.audit.corrected_table",
    "evaluate": "rag_zeval.evaluation.api",
    "open_backend": "rag_zeval.models.open",
    "read_cases": "rag_zeval.cases.reading",
    "read_judged": "rag_zeval.results",
}


def __getattr__(name: str) -> Any:  # loaded when first asked for: `import rag_zeval` answers at once
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PLACES.get(name, "rag_zeval.judge.evaluator")), name)
