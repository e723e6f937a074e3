"""RAG-Zeval inside of other tools, a module each; none is loaded unless it is imported."""
