"""RAG-Zeval, a compact judge of RAG answers: the contract and the evaluator. The stages stand beside this package."""

__version__ = "0.1.0"
