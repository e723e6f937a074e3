"""Test sets from documents: their text, its chunks, and the questions that a model writes about them."""
