"""Templates of pages and Markdown files: every one in the house is opened here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent


def templates(*folders: Path, **options: Any) -> Environment:
    """A jinja2 environment that looks for templates in these folders, in order. options: as of `jinja2.Environment`.

    Values are escaped in templates whose names end in `.html`. A template that uses a value which it is not given
    raises UndefinedError.

        templates(TEMPLATES, trim_blocks=True).get_template("report.html").render(table=table)
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    loader, escaped = FileSystemLoader(folders), select_autoescape(["html"])
    return Environment(loader=loader, autoescape=escaped, undefined=StrictUndefined, **options)
