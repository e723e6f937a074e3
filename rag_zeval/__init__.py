"""RAG-Zeval, a compact judge of RAG answers: the contract and the evaluator. The stages stand beside this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_zeval.judge.evaluator import Evaluation, Evaluator, Example
    from rag_zeval.models.language_model import open_backend

__version__ = "0.1.0"
__all__ = ["Evaluation", "Evaluator", "Example", "open_backend"]


def __getattr__(name: str) -> Any:  # loaded when first asked for: `import rag_zeval` answers at once
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rag_zeval.judge import evaluator
    from rag_zeval.models import language_model

    return getattr(language_model if name == "open_backend" else evaluator, name)
