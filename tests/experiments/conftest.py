"""For the tests of experiments: verl on a CPU, small experiments, pages read as a browser reads them."""

import io
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest


class Tags(HTMLParser):
    """The tags of a page in their order, and all that they refer to outside of it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        referring = ("src", "href", "srcset", "data", "action")
        self.links += [v or "" for name, v in attrs if name in referring and not (v or "").startswith("#")]


@pytest.fixture
def read_tags() -> type[Tags]:
    return Tags


@pytest.fixture
def place() -> Callable[[bytes, str], tuple[float, float]]:
    """Where a PNG has a colour, such as "#b23a48": the mean column and row of its pixels."""
    import numpy as np
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    def found(image: bytes, colour: str) -> tuple[float, float]:
        pixels = imread(io.BytesIO(image))[..., :3]
        rows, columns = np.nonzero(np.abs(pixels - to_rgb(colour)).max(-1) < 0.01)
        assert len(rows)
        return float(columns.mean()), float(rows.mean())

    return found


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Path], str]:
    """The document that a browser makes of a page."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]

    def document(page: Path) -> str:
        done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    return document
