"""Pages and tables from templates. A page is one file without external assets."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eval_benchmarks.output.figure import DPI
from rag_zeval import templates as shared
from rag_zeval.files import write_bytes

TEMPLATES = Path(__file__).parent / "templates"
CSS_DPI = 96


def fill(
    template: str, filters: Mapping[str, Callable[..., str]] | None = None, folder: Path = TEMPLATES, **values: Any
) -> str:
    """Fill in a template of the folder, and return its text. In HTML all values are escaped."""
    folders = (folder, TEMPLATES, shared.TEMPLATES)
    return shared.templates(*folders, filters=filters).get_template(template).render(**values)


def render(template: str, **values: Any) -> str:
    """Fill in the template of a page. A lone surrogate in a judge's text becomes a question mark."""
    return fill(template, **values).encode("utf-8", "replace").decode("utf-8")


def write_or_remove(path: Path, content: bytes | None) -> None:
    """Write a file that not every run has. None removes the one that an earlier run may have left."""
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_bytes(path, content)


def embedded(image: bytes) -> dict[str, Any]:
    """Return a PNG, drawn at DPI, as a page embeds it: `src` and `width`.

    At this width, in CSS pixels, its text has its size in points.
    """
    pixels = int.from_bytes(image[16:20], "big")  # the width, from the PNG's header
    source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    return {"src": source, "width": round(pixels / DPI * CSS_DPI)}
