"""Templates of pages and Markdown files: every one in the house is opened here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.text import percent

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent


def templates(*folders: Path, filters: Mapping[str, Callable[..., str]] | None = None, **options: Any) -> Environment:
    """A jinja2 environment that looks for templates in these folders, in order.

    filters: functions of a value, by the names that templates give them. options: as of `jinja2.Environment`.

    Values are escaped in templates whose names end in `.html`. A template that uses a value which it is not given
    raises UndefinedError.

        templates(TEMPLATES, trim_blocks=True).get_template("report.html").render(table=table)
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    loader, escaped = FileSystemLoader(folders), select_autoescape(["html"])
    environment = Environment(loader=loader, autoescape=escaped, undefined=StrictUndefined, **options)
    environment.filters.update({"percent": percent, **(filters or {})})
    return environment
