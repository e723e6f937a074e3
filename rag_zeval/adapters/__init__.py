"""RAG-Zeval inside other tools, one module for each. No module is loaded unless you import it."""
