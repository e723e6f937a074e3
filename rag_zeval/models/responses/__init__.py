"""Reads what servers answer: completions, bodies of limited size, and whether the whole prompt was read."""
