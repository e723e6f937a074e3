"""What scores say: intervals, correlations, tests."""
