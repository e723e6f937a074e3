"""Statistics of scores: intervals, correlations, tests."""
