"""Reads replies of language models: which part is the answer, and what it says. Missing values are never made up."""
