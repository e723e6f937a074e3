import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostile_pdfs import deflated, objects, shown, stream, swollen, written
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.documents import bounded
from rag_zeval.documents.bounded import FileText, read_files
from rag_zeval.documents.documents import read_documents
from rag_zeval.documents.formats import decode
from rag_zeval.errors import InputError

HTML = """<html><head><title>Ferries</title><script>never()</script><style>p {}</style></head><body>
<h1>To  Inchcolm</h1><p>The <b>fer</b>ry costs 5&nbsp;pounds; dogs
are free.<!-- never --><br>Bring change.</p><table><tr><td>Mon</td><td>10:00</td></tr></table>
<ul><li>One<li>Two</ul>caf&eacute; &lt;b&gt;</body></html>"""
SEEN = "Ferries\n\nTo Inchcolm\n\nThe ferry costs 5 pounds; dogs are free.\nBring change.\n\nMon 10:00\n\nOne\n\nTwo"


def pdf(*pages: str) -> bytes:
    """A PDF with these lines of ASCII text, a page each."""
    return written(objects(*(stream(shown(line)) for line in pages)))


def test_every_kind_of_file_is_text_in_the_order_of_names(tmp_path: Path) -> None:
    files = {
        "b/notes.md": "\ufeff# Title\r\n\r\nGrüße.".encode(),
        "b.TXT": b"Plain.\r",
        "a/page.html": HTML.encode(),
        "a/old.htm": "<meta charset='iso-8859-1'><p>Grüße</p>".encode("iso-8859-1"),
        "z.pdf": pdf("The first page goes", "on here."),
        "program.py": b"no document",
        ".git/hidden.txt": b"hidden",
        "b/.hidden.md": b"hidden",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    reading = read_documents([tmp_path])
    documents = reading.documents
    assert {document.name: document.text for document in documents} == {
        "a/old.htm": "Grüße",
        "a/page.html": SEEN + "\n\ncafé <b>",
        "b/notes.md": "# Title\n\nGrüße.",
        "b.TXT": "Plain.\n",
        "z.pdf": "The first page goes\non here.",
    }
    assert [document.name for document in documents] == ["a/old.htm", "a/page.html", "b/notes.md", "b.TXT", "z.pdf"]
    assert [*reading.unread()] == ["left out: files of other kinds: .py 1"]


def test_a_file_that_cannot_be_read_is_left_out_with_its_reason(tmp_path: Path) -> None:
    broken = {
        "broken.pdf": b"%PDF-1.4 nothing",
        "empty.html": b"",
        "latin.txt": "Grüße".encode("latin-1"),
        "nothing.md": b" \n",
        "scan.pdf": pdf(""),
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"no document with text \(broken.pdf: .*; scan.pdf: no text in it\)"):
        read_documents([tmp_path])
    (tmp_path / "good.txt").write_text("Good.")
    reading = read_documents([tmp_path])
    left_out = reading.left_out
    assert [document.text for document in reading.documents] == ["Good."]
    assert list(left_out) == list(broken) and left_out["nothing.md"] == "no text in it"
    assert left_out["latin.txt"] == "is not in utf-8: save it as UTF-8"
    assert all(reason.isprintable() for reason in left_out.values())


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.pdf").write_bytes(pdf("X"))
    (tmp_path / "x.pptx").write_bytes(b"x")
    for paths, message in [
        (["gone.txt"], "gone.txt: no such file or folder"),
        (["x.pptx"], "x.pptx: cannot be read as text; documents are files with one of .txt, .md"),
        (["a/x.pdf", "b/x.pdf"], "b/x.pdf: has the same name 'x.pdf' as .*a/x.pdf; give the folder"),
        (["a", "a/x.pdf"], "a/x.pdf: is in two of the given paths; remove one of them"),
        (["b/../a", "."], "a/x.pdf: is in two of the given paths"),
    ]:
        with pytest.raises(InputError, match=message):
            read_documents([tmp_path / path for path in paths])


def test_what_of_a_pdf_is_not_in_its_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "scans.pdf").write_bytes(pdf("One.", "", "Three.", "", *["More."] * 3, *[""] * 12))
    (tmp_path / "repaired.pdf").write_bytes(b"junk\n" + pdf("Text."))
    (tmp_path / "whole.pdf").write_bytes(pdf("Whole."))
    counted = {**objects(stream(shown("Whole again."))), 9: b"1"}
    counted[2] = counted[2].replace(b"/Count 1", b"/Count 9 0 R")  # the number may be an object of its own
    (tmp_path / "whole2.pdf").write_bytes(written(counted))
    reading = read_documents([tmp_path])
    assert [document.name for document in reading.documents] == [
        "repaired.pdf", "scans.pdf", "whole.pdf", "whole2.pdf"
    ]  # fmt: skip
    repaired, scans = reading.unread()
    assert repaired.startswith("read in part: repaired.pdf: pypdf reported ")
    pages = "2, 4, 8, 9, 10, 11, 12, 13, 14, 15, ..."
    assert scans == f"read in part: scans.pdf: pages {pages} of 19 have no text, and may be a scan"


def test_no_link_leads_out_of_a_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for place in (outside, folder / "sub", folder / ".hidden"):
        place.mkdir(parents=True)
    (outside / "x.md").write_text("Outside.")
    (folder / "sub" / "in.md").write_text("Inside.")
    os.mkfifo(folder / "pipe.txt")
    for name, target in {
        "a.md": "sub/in.md", "out.md": "../outside/x.md", "out": "../outside", "chain.md": "out.md", "gone.md": "none",
        "loop.md": "loop.md", "up": "..", "self": ".", "sub/hidden": "../.hidden", "sub/zero.txt": "/dev/zero",
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
    reading = read_documents([folder])
    assert {document.name: document.text for document in reading.documents} == {"a.md": "Inside."}
    outwards = "is a link to a file outside the folder"
    inwards = "is a link to a folder: the files there are read where they are, unless they are hidden"
    assert reading.left_out == {
        **dict.fromkeys(["chain.md", "out.md", "sub/zero.txt"], outwards),
        **dict.fromkeys(["out", "up"], "is a link to a folder outside the folder"),
        **dict.fromkeys(["self", "sub/hidden"], inwards),
        **dict.fromkeys(["gone.md", "loop.md"], "is a link to nothing"),
        "pipe.txt": "is not a regular file, or cannot be opened",
        "sub/in.md": "has the same text as a.md",
    }
    (tmp_path / "other").mkdir()
    for name in ("out.md", "one.md"):
        (tmp_path / "other" / name).symlink_to("../outside/x.md")
    (tmp_path / "other" / "gone.md").write_bytes(b"")
    both = read_documents([folder, tmp_path / "other"]).left_out
    again = {str(tmp_path / "other" / "out.md"): outwards, str(tmp_path / "other" / "gone.md"): "no text in it"}
    assert both == {**reading.left_out, **again, "one.md": outwards}
    (tmp_path / "link").symlink_to("folder")
    named = read_documents([folder / "out.md", tmp_path / "link"])  # named by the user: these may be links
    assert [document.text for document in named.documents] == ["Outside.", "Inside."]
    with pytest.raises(InputError, match=r"pipe.txt: is neither a file nor a folder"):
        read_documents([folder / "pipe.txt"])


def test_a_folder_that_cannot_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "good.md").write_text("Good.")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert [*read_documents([tmp_path]).unread()] == ["left out: closed: cannot be opened: Permission denied"]


TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"))
MARKED = {"utf-8-sig": b"", "utf-16": b"", "utf-32": b"", "utf-16-be": b"\xfe\xff", "utf-32-be": b"\0\0\xfe\xff"}


@given(TEXT, st.sampled_from(sorted(MARKED)), st.booleans())
def test_a_text_is_read_as_it_is(text: str, encoding: str, declares: bool) -> None:
    assert decode(MARKED[encoding] + text.replace("\n", "\r\n").encode(encoding), declares) == text
    assert text.startswith("\ufeff") or decode(text.encode()) == text  # without one it is UTF-8


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "“Größe” – 5 €"),
        ("Windows-1251", "cp1251", "Размер"),
        ("gb2312", "gb18030", "镕基"),
        ("shift_jis", "cp932", "①大きさ"),
        ("iso-2022-jp", "iso-2022-jp", "大きさ"),  # all its bytes are ASCII
        ("shift_jis", "utf-8", "Größe"),  # what it says is wrong
        ("utf-16", "ascii", "plain"),
    ],
)
@pytest.mark.parametrize("form", ["<meta charset='{}'>", "<META content='x; charset={}'>", '<?xml encoding="{}"?>'])
def test_a_page_says_its_encoding(form: str, label: str, encoding: str, text: str) -> None:
    page = f"<!-- -->{form.format(label)}\n<p>{text}"
    assert decode(page.encode(encoding), declares=True) == page
    if encoding not in ("utf-8", "ascii", "iso-2022-jp"):
        with pytest.raises(InputError, match="is not in utf-8: save it as UTF-8"):
            decode(page.encode(encoding))  # other files say nothing


@pytest.mark.parametrize(
    "label", ["utf-8", "utf-16", "utf-32", "cp037", "rot13", "base64", "idna", "undefined", "nosuch", "big5"]
)
def test_no_byte_is_replaced_and_no_text_made_up(label: str) -> None:
    with pytest.raises(InputError, match="is not in utf-8"):
        decode(f"<meta charset={label}><p>Größe é".encode("latin-1"), declares=True)


@pytest.mark.parametrize("content", [b"a\0b", "Größe".encode("utf-16-le") + b"\0", bytes(8), b"\xff\xfea\0\0\0"])
def test_what_holds_nul_is_no_text(content: bytes) -> None:
    with pytest.raises(InputError, match=r"holds NUL bytes|is not in utf-8"):
        decode(content, declares=True)


SLOW = written(objects(deflated(b"BT /F1 12 Tf " + b"1 1 Td (w) Tj " * 200_000 + b"ET")))  # half a minute, 10 KB


def read(*paths: Path) -> list[FileText]:
    return [*read_files((str(path), path.suffix) for path in paths)]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_what_takes_too_long_or_too_much_is_left_out_and_the_next_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.7)
    monkeypatch.setattr(bounded, "MEMORY_GIB", 0.15)
    sparse = write(tmp_path / "sparse.txt", b"x")
    os.truncate(sparse, 1 << 40)
    good = write(tmp_path / "good.txt", b"Good.")
    large = write(tmp_path / "large.html", b"<p>word" * 12_000_000)
    slow = write(tmp_path / "slow.pdf", SLOW)
    started = time.monotonic()
    outcomes = read(slow, good, large, good, sparse, good)
    assert time.monotonic() - started < 8  # machines are busy
    assert outcomes[1::2] == 3 * [{"text": "Good.", "doubts": []}]
    assert outcomes[::2] == [
        {"left_out": "takes more than 0.7 seconds to read"},
        {"left_out": "needs more than 0.15 GiB of memory to read"},
        {"left_out": "needs more than 0.15 GiB of memory to read"},
    ]


def test_a_text_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "long.txt", b"word " * (bounded.CHARACTERS // 5) + b"w")
    assert read(path) == [{"left_out": "has 20,000,001 characters of text, more than 20,000,000: split it"}]


def test_a_stream_that_swells_is_left_out(tmp_path: Path) -> None:
    bomb = objects(stream(b"BT /F1 12 Tf (word) Tj ET"), swollen(b" ", 80_000_000))
    [outcome] = read(write(tmp_path / "bomb.pdf", written(bomb)))
    assert re.match("page 2 cannot be read: LimitReachedError", outcome["left_out"])


def test_what_is_no_file_any_more_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to("pipe.txt")
    pipe, link, gone = read(tmp_path / "pipe.txt", tmp_path / "link.txt", tmp_path / "gone.txt")
    assert pipe == {"left_out": "is not a regular file"}
    assert "Too many levels of symbolic links" in link["left_out"] and "FileNotFoundError" in gone["left_out"]


def test_no_module_comes_from_the_folder_of_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "resource", "pypdf", "rag_zeval", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert read(write(tmp_path / "good.txt", b"Good.")) == [{"text": "Good.", "doubts": []}]
    assert not (tmp_path / "ran").exists()


def test_a_reader_that_is_ended_from_outside_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 20.0)
    path = write(tmp_path / "slow.pdf", SLOW)
    files = [(str(path), ".pdf"), (str(write(tmp_path / "good.txt", b"Good.")), ".txt")]

    def end() -> None:
        """As the kernel does when memory is short: to the process that reads, not to the one that waits for it."""
        for _ in range(400):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if process.ppid() != os.getpid():
                        return process.kill()
            time.sleep(0.05)

    killer = threading.Thread(target=end)
    killer.start()
    outcomes = [*read_files(files)]
    killer.join()
    assert outcomes == [{"left_out": "makes its reader end by signal 9"}, {"text": "Good.", "doubts": []}]
