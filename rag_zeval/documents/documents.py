"""Documents as plain text: what stands in files of text, Markdown, HTML and PDF."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.errors import InputError, needed
from rag_zeval.models.language_model import one_line

PARAGRAPH = "\n\n"  # between two of a text's paragraphs
UNSEEN = ("script", "style", "noscript", "template", "svg")  # elements of HTML that no reader sees
BLOCKS = frozenset(
    "address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr html li main nav ol p pre section summary table title tr ul".split()
)
WITHIN = {"br": "\n", "td": " ", "th": " "}  # what stands for the edge of an element inside a paragraph


@dataclass(frozen=True)
class Document:
    """A text by its name: the file's, or its path below the folder that was given."""

    name: str
    text: str


def read_documents(paths: Sequence[Path]) -> tuple[list[Document], dict[str, str]]:
    """The documents in these files and folders, and, by name, why a file of a known kind was left out.

    A folder stands for all files below it with a suffix of SUFFIXES, in the order of their names, but for hidden ones.
    A file that cannot be read as what it is, or holds no text (a scan), is left out.
    Raises InputError for a path that is not there, a named file of another kind, two documents of one name, no text at
    all, and a reader that is not installed.
    """
    files: dict[str, Path] = {}
    for name, path in _files(paths):
        if name in files:
            raise InputError(
                f"{path}: its name '{name}' is also that of {files[name]}; give the folder that holds both"
            )
        files[name] = path
    documents, left_out = [], {}
    for name, path in files.items():
        try:
            text = SUFFIXES[path.suffix.lower()](path.read_bytes())
        except InputError:
            raise
        except Exception as error:  # a broken file makes its parser raise whatever it likes
            left_out[name] = f"{type(error).__name__}: {one_line(str(error))}"
            continue
        if text.strip():
            documents.append(Document(name, text))
        else:
            left_out[name] = "no text in it"
    if not documents:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InputError(f"no document with text ({reasons or 'no file ' + KNOWN})")
    return documents, left_out


def _files(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for given in paths:
        if given.is_dir():
            below = {path.relative_to(given): path for path in given.rglob("*") if path.suffix.lower() in SUFFIXES}
            for relative, path in sorted(below.items()):
                if path.is_file() and not any(part.startswith(".") for part in relative.parts):
                    yield relative.as_posix(), path
        elif not given.is_file():
            raise InputError(f"{given}: there is no such file or folder")
        elif given.suffix.lower() not in SUFFIXES:
            raise InputError(f"{given}: cannot be read as text; documents are files {KNOWN}")
        else:
            yield given.name, given


def _plain(content: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig").read()  # every end of line is "\n" then


def _html(content: bytes) -> str:
    with needed("lxml", "HTML"):
        from lxml import etree

    encoding = "utf-8" if _is_utf8(content) else None  # None: as the page says itself
    parser = etree.HTMLParser(encoding=encoding, remove_comments=True, remove_pis=True, no_network=True)
    root = etree.fromstring(content, parser)
    etree.strip_elements(root, *UNSEEN, with_tail=False)
    pieces = []
    for event, element in etree.iterwalk(root, events=("start", "end")):
        text = element.text if event == "start" else element.tail
        edge = PARAGRAPH if element.tag in BLOCKS else WITHIN.get(element.tag, "") * (event == "start")
        pieces += [edge, re.sub(r"\s+", " ", text or "")]
    lines = "".join(pieces).split("\n")
    return re.sub(r"\n{3,}", PARAGRAPH, "\n".join(line.strip() for line in lines)).strip()


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _pdf(content: bytes) -> str:
    with needed("pypdf", "a PDF"):
        import pypdf

    # One line end between two pages: a sentence may go on over them, and a paragraph's end is not to be seen.
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages)


SUFFIXES: dict[str, Callable[[bytes], str]] = {
    ".txt": _plain,
    ".md": _plain,
    ".markdown": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}
KNOWN = f"with one of {', '.join(SUFFIXES)}"
