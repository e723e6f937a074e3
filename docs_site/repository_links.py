"""Links of the site that leave docs/ lead to the file in the repository (mkdocs loads this file as a hook).

A relative link to a file outside docs/, to a folder or to a notebook becomes `repo_url/blob/main/PATH` (`tree` for a
folder). So does an entry of the navigation that is no page. A target that does not exist is a warning, which ends a
strict build.
"""

import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from pymdownx.slugs import slugify

BRANCH = "main"
NOTEBOOK = ".ipynb"  # shown by the repository's host; the site has only its JSON
log = logging.getLogger("mkdocs.hooks.repository_links")  # mkdocs counts the warnings of its own loggers


class Repository:
    """The files beside docs/, and where a reader of the site finds them."""

    def __init__(self, config: Any) -> None:
        self.root = Path(config.config_file_path).parent
        self.docs = Path(config.docs_dir)
        self.url = config.repo_url.rstrip("/")

    def address(self, target: Path, anchor: str = "") -> str | None:
        """The URL of a file or folder; None if it does not exist, lies outside the repository or lacks the anchor."""
        target = Path(os.path.normpath(target))
        if not target.exists() or not target.is_relative_to(self.root):
            return None
        if anchor and target.suffix == ".md" and anchor not in anchors(target):
            return None
        kind = "tree" if target.is_dir() else "blob"
        end = f"#{anchor}" if anchor else ""
        return f"{self.url}/{kind}/{BRANCH}/{target.relative_to(self.root).as_posix()}{end}"


def anchors(page: Path) -> set[str]:
    """The anchors of a Markdown file's headings."""
    settings = {"toc": {"slugify": slugify(case="lower")}}
    markdown = Markdown(extensions=["toc", "fenced_code"], extension_configs=settings)
    markdown.convert(page.read_text(encoding="utf-8"))
    found, open_ = set(), list(markdown.toc_tokens)  # type: ignore[attr-defined]
    while open_:
        heading = open_.pop()
        found.add(heading["id"])
        open_ += heading["children"]
    return found


class RepositoryLinks(Extension, Treeprocessor):
    """Rewrites the links of one page after another; `page` is the one that is being rendered."""

    def __init__(self, repository: Repository) -> None:
        super().__init__()
        self.repository, self.page = repository, ""

    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(self, "repository_links", 5)  # before mkdocs looks for the targets, at 0

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            self._rewrite(link)

    def _rewrite(self, link: Element) -> None:
        address = urlsplit(link.get("href", ""))
        if address.scheme or address.netloc or not address.path:
            return
        folder = (self.repository.docs / self.page).parent
        target = Path(os.path.normpath(folder / unquote(address.path)))
        if target.is_relative_to(self.repository.docs) and not (target.is_dir() or target.suffix == NOTEBOOK):
            return  # mkdocs looks after its own files
        url = self.repository.address(target, address.fragment)
        if url is None:
            log.warning(f"{self.page}: the link '{link.get('href')}' leads to nothing in the repository")
        else:
            link.set("href", url)


def on_config(config: Any) -> None:
    repository = Repository(config)
    config.markdown_extensions.append(RepositoryLinks(repository))
    config.nav = _with_addresses(config.nav, repository)


def _with_addresses(entry: Any, repository: Repository) -> Any:
    """The navigation, with the address of each file that is no page."""
    if isinstance(entry, list):
        return [_with_addresses(one, repository) for one in entry]
    if isinstance(entry, dict):
        return {title: _with_addresses(inner, repository) for title, inner in entry.items()}
    if entry.endswith(".md"):
        return entry
    return repository.address(repository.docs / entry) or entry  # mkdocs warns of what does not exist


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> None:
    [links] = [one for one in config.markdown_extensions if isinstance(one, RepositoryLinks)]
    links.page = page.file.src_uri
