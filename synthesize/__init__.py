"""Synthesis: generate answers of falling faithfulness to questions, by context-aware decoding."""

import rag_zeval  # noqa: F401 (first of all: see what it does with Ctrl-C)
