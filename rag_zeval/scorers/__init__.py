"""Scorers: RAG-Zeval, text measures, claim checkers, and other judges' methods. `registry` lists them."""
