"""Golden sets: what is missing in one, what a retriever finds of it, and why a system's answers to it fail."""
