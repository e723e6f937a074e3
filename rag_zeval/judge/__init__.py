"""The judge: its trajectory, prompt and parser, and what a score is."""
