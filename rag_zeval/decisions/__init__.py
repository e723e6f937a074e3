"""Compares result files: what changed, whether it could be noise, and whether a gate lets the new version pass."""
