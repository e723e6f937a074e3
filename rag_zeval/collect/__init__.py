"""Collects the answers of a RAG system to a test set, as rows that `rag-zeval evaluate` reads."""
