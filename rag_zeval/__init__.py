"""RAG-Zeval: a compact judge of RAG answers. This package is the contract and the evaluator; the stages stand beside it."""

__version__ = "0.1.0"
