"""How figures are drawn: their colours, axes and PNG files."""

import io
from typing import Any

BLUE, RED, GREEN = "#1f5fa8", "#b23a48", "#3f8f4f"  # have names because figures use the paper's colours
COLOURS = (BLUE, RED, GREEN, "#c08a2d", "#7a5195", "#57606a")
DPI = 150


def style(ax: Any, x: str) -> None:
    ax.set_xlabel(x)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def png(figure: Any) -> bytes:
    """Return the figure as PNG. The same figure gives the same bytes."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()
