"""Synthesis: questions in, answers of falling context-faithfulness out (context-aware decoding)."""
