"""Audits of a judge: draws rows for people to label, and measures how far the judge and people agree."""
