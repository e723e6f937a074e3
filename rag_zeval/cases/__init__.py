"""Reads cases: questions, the contexts retrieved for them, and the answers of RAG systems."""
