"""Synthesis: questions in, answers of falling context-faithfulness out (context-aware decoding)."""

import rag_zeval  # noqa: F401 (first of all: see what it does with Ctrl-C)
