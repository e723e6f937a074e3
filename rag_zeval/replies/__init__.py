"""Replies of language models: what of a text is the answer to what was asked, and what it says. Nothing is made up."""
