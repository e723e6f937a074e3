"""Benchmarks of answer scorers: data, scorers, statistics and tables. Run with `python -m eval_benchmarks`."""
