"""Golden sets: checks a set, measures retrieval on it, classifies failed answers and compares versions of a system."""
