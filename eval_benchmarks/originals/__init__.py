"""Scorers that run original packages, with their own prompts and environments. Our client makes their calls."""
