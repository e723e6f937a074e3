"""Markdown files from `templates/`, nothing in them escaped."""

from pathlib import Path
from typing import Any

from rag_zeval.templates import templates

TEMPLATES = Path(__file__).parent / "templates"
DASH = "-"


def fill(template: str, /, **values: Any) -> str:
    """The template with its values. Raises jinja2's UndefinedError for one that is not given."""
    layout = templates(TEMPLATES, trim_blocks=True, keep_trailing_newline=True)
    layout.filters.update(figure=figure, change=change)
    return layout.get_template(template).render(**values)


def figure(row: dict[str, Any]) -> str:
    """`0.412 [0.371, 0.455]` of a row's value, ci_low and ci_high; what is missing is left out."""
    return _with_limits(row, ".3f")


def change(row: dict[str, Any] | None) -> str:
    """`+0.031 [+0.012, +0.050]` of a difference; a dash if there is none."""
    return DASH if row is None else _with_limits(row, "+.3f")


def _with_limits(row: dict[str, Any], form: str) -> str:
    if row["value"] is None:
        return DASH
    limits = "" if row["ci_low"] is None else f" [{row['ci_low']:{form}}, {row['ci_high']:{form}}]"
    return f"{row['value']:{form}}{limits}"
