"""The core of every scoring run: opens scorers by name, scores each row of a file once, and counts the costs."""
