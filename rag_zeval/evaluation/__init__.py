"""`rag-zeval evaluate`: metrics on cases, their rows, what they cost."""
