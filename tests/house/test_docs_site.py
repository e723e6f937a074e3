"""The documentation site: what ends its build, where links to code lead, and that opening it fetches nothing."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import html

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
pytestmark = pytest.mark.skipif(not MKDOCS.exists(), reason="no .venv-docs: `make docs` makes it")
Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Builds a site of two pages by the settings of the real one, where the first page holds a text."""

    def build(text: str, nav: str = "[{First: index.md}, {Second: second.md}, {Code: ../code.py}]") -> object:
        shutil.copytree(ROOT / "docs_site", tmp_path / "docs_site", ignore=shutil.ignore_patterns("__pycache__"))
        settings = re.sub(r"^nav:\n(?: .*\n)+", f"nav: {nav}\n", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
        (tmp_path / "mkdocs.yml").write_text(settings)
        (tmp_path / "code.py").write_text("")
        (tmp_path / "NOTES.md").write_text("# Notes\n\n## On `α`, and more\n")
        (tmp_path / "docs" / "figures").mkdir(parents=True)
        (tmp_path / "docs" / "first.ipynb").write_text("{}")
        (tmp_path / "docs" / "index.md").write_text(f"# First\n\n{text}\n")
        (tmp_path / "docs" / "second.md").write_text("# Second\n\n## A part\n")
        return subprocess.run([MKDOCS, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True)

    return build


def test_links_out_of_the_pages_lead_into_the_repository(build: Build, tmp_path: Path) -> None:
    links = [
        "../code.py",
        "figures",
        "first.ipynb",
        "../NOTES.md#on-α-and-more",
        "second.md#a-part",
        "https://example.org/x",
    ]
    built = build(" ".join(f"[x]({link})" for link in links) + "\n\n    [x](../no/link)\n")
    assert built.returncode == 0, built.stderr
    page = html.fromstring((tmp_path / "site" / "index.html").read_bytes())
    files = re.findall(r"^repo_url: (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)[0]
    assert page.xpath("//article/p/a/@href") == [
        f"{files}/blob/main/code.py", f"{files}/tree/main/docs/figures",
        f"{files}/blob/main/docs/first.ipynb", f"{files}/blob/main/NOTES.md#on-α-and-more",
        "second.html#a-part", "https://example.org/x",
    ]  # fmt: skip
    assert f"{files}/blob/main/code.py" in page.xpath("//nav//a/@href")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[x](third.md)", "third.md"),
        ("[x](second.md#another-part)", "another-part"),
        ("[x](../rag.py)", "../rag.py"),
        ("[x](../../outside.py)", "../../outside.py"),
        ("[x](../NOTES.md#of-beta)", "../NOTES.md#of-beta"),
        ("[x](/second.md)", "/second.md"),
        ("![x](figures/none.png)", "figures/none.png"),
    ],
)
def test_a_dead_link_ends_the_build(build: Build, text: str, named: str) -> None:
    built = build(text)
    assert built.returncode == 1
    assert [line for line in built.stderr.splitlines() if line.startswith("WARNING") and named in line]


@pytest.mark.parametrize(("nav", "named"), [("[index.md]", "second.md"), ("[index.md, second.md, ../x.py]", "../x.py")])
def test_a_page_without_a_place_or_a_place_without_a_page_ends_the_build(build: Build, nav: str, named: str) -> None:
    built = build("", nav)
    assert built.returncode == 1 and named in built.stderr


def test_opening_a_page_fetches_nothing_from_elsewhere(build: Build, tmp_path: Path) -> None:
    assert build("    code\n\n![x](data:image/gif;base64,R0lGODlhAQABAAAAACw=)").returncode == 0
    page = html.fromstring((tmp_path / "site" / "index.html").read_bytes())
    loaded = page.xpath("//*/@src | //link[not(@rel='canonical')]/@href")
    assert len(loaded) >= 4 and not [one for one in loaded if re.match(r"(https?:)?//", one)]
    assert not page.xpath("//*[@data-md-component='source']"), "this makes the theme ask GitHub for the stars"
    styles = [path.read_text() for path in (tmp_path / "site").rglob("*.css")]
    assert styles and not [one for one in styles if re.search(r"url\([\"']?(https?:)?//|@import", one)]
