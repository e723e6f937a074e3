"""Judges trained under several settings and seeds, and what can be said of them: tables, checks and figures."""
