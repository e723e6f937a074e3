import os
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_pdfs import deflated, objects, stream, swollen, written

from rag_zeval.documents import bounded
from rag_zeval.documents.bounded import FileText, read_files

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


def test_a_text_that_is_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            parents = _parents()
            for process, parent in parents.items():
                if parents.get(parent) == os.getpid():
                    return os.kill(process, signal.SIGKILL)
            time.sleep(0.05)

    killer = threading.Thread(target=end)
    killer.start()
    outcomes = [*read_files(files)]
    killer.join()
    assert outcomes == [{"left_out": "makes its reader end by signal 9"}, {"text": "Good.", "doubts": []}]


def _parents() -> dict[int, int]:
    """Every process and the one that started it."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has ended
            found[int(status.parent.name)] = int(re.findall(r"PPid:\s+(\d+)", status.read_text())[0])
    return found
