"""Answers of a RAG system to the questions of a test set, as rows that `rag-zeval evaluate` reads."""
