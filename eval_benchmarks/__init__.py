"""Benchmarks of answer scorers: data, scorers, statistics and tables. Run with `python -m eval_benchmarks`."""

import rag_zeval  # noqa: F401 (first of all: see what it does with Ctrl-C)
