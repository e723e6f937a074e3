"""The core of every scoring run: scorers opened by name, rows of a file scored once, and what that costs."""
