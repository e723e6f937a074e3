"""From two result files to a decision: what changed, whether that may be chance, and whether it may be released."""
