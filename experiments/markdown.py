"""Fills the Markdown templates in `templates/`, without escaping, and formats numbers with their intervals."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rag_zeval.statistics.bootstrap import mean_interval
from rag_zeval.templates import templates
from rag_zeval.text import with_interval

TEMPLATES = Path(__file__).parent / "templates"
DASH = "-"


def fill(template: str, /, **values: Any) -> str:
    """Return the template filled with the values. Raise jinja2's UndefinedError for a value that is not given."""
    filters = {"figure": figure, "change": change}
    layout = templates(TEMPLATES, filters=filters, trim_blocks=True, keep_trailing_newline=True)
    return layout.get_template(template).render(**values)


def figure(row: dict[str, Any]) -> str:
    """Format a row as `0.412 [0.371, 0.455]`. A missing interval is left out, and a missing value is a dash."""
    return with_interval(row["value"], row["ci_low"], row["ci_high"])


def change(row: dict[str, Any] | None) -> str:
    """Format a difference as `+0.031 [+0.012, +0.050]`; a dash if there is none."""
    return DASH if row is None else with_interval(row["value"], row["ci_low"], row["ci_high"], "+.3f")


def mean_figure(values: Sequence[float], form: str = ".3f") -> str:
    """Format the mean of values with its 95% bootstrap interval; a dash if there are none."""
    if not values:
        return DASH
    low, high = mean_interval([[value] for value in values]) or (None, None)
    return with_interval(mean(values), low, high, form)
