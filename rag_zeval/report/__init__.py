"""Reports of result rows: the page that is sent around, and the figures of a paper."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parents[1] / "templates"
