"""Documents that would lose their text, time, memory or place: every word is read, or the document is named.

Files of text, pages, PDFs and Word documents of over 400 kinds are written with words that stand nowhere else, and read
as `rag-zeval questions` does it, in a process that is measured. Then folders with links, pipes and sockets in them.
"""

import json
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from commands import UNSEEN, run_command
from findings import Findings
from hostile_docx import heavy_docx, light_docx
from hostile_files import HostileFile, heavy_texts, light_texts
from hostile_pages import heavy_pages, light_pages
from hostile_pdfs import heavy_pdfs, light_pdfs

SECONDS, SLACK = 15.0, 5.0  # for one file here, and what else a process may take
MOST_MIB = 1_100  # of the command, and of each process that it starts
READING = f"""
import json, sys
from pathlib import Path
from rag_zeval.documents import bounded
from rag_zeval.documents.documents import read_documents

bounded.SECONDS = {SECONDS}
reading = read_documents([Path(path) for path in sys.argv[1:]])
unread = {{name: [reason] for name, reason in reading.left_out.items()}} | reading.doubts
print(json.dumps({{"texts": {{one.name: one.text for one in reading.documents}}, "unread": unread}}))
"""
TOGETHER = 400  # files in a folder
SECRET = "secretoutside"
SAME = "has the same text as "
COUNTED = (
    "files", "kinds", "read whole", "read in part, and said so", "left out, and said so", "words lost",
    "named for nothing",
    "not named", "hangs", "too large", "broke off", "escapes", "read outside the folder", "links", "links not named",
)  # fmt: skip


class _Campaign(Findings):
    """Reads files in processes of their own, and looks for their words."""

    def __init__(self) -> None:
        super().__init__("documents", COUNTED)
        self.kinds: set[str] = set()

    def read(self, files: Sequence[HostileFile]) -> None:
        """These files, in one folder and one process."""
        with tempfile.TemporaryDirectory() as folder:
            by_name = {f"{at}{file.suffix}": file for at, file in enumerate(files)}
            for name, file in by_name.items():
                Path(folder, name).write_bytes(file.content)
            Path(folder, "good.txt").write_text("A good file.")
            kind = files[0].kind if len(files) == 1 else f"{len(files)} files"
            said = self._read(folder, kind, SECONDS * len(files))
        for name, file in by_name.items() if said else ():
            self._compare(name, file, said)
        self.kinds |= {file.kind for file in files}
        self.counts["files"] += len(files)
        self.counts["kinds"] = len(self.kinds)
        self.tell(f"{self.counts['files']} files")

    def _compare(self, name: str, file: HostileFile, said: dict[str, Any]) -> None:
        text, reasons = said["texts"].get(name), said["unread"].get(name, [])
        if reasons and reasons[0].startswith(SAME):  # another kind of file may well hold the same words
            first = reasons[0].removeprefix(SAME)
            text, reasons = said["texts"][first], said["unread"].get(first, [])
        where = f"{file.kind} ({name})"
        asked = [word for word in file.words if word.isascii() or not file.ascii_only]
        lost = [word for word in asked if word not in (text or "")]
        outcome = "left out" if text is None else "read in part" if reasons else "read whole"
        self.counts[outcome if outcome == "read whole" else f"{outcome}, and said so"] += 1
        self.note_if(lost and not reasons, "words lost", where, f"{len(lost)} of {len(asked)}: {lost[:3]}")
        self.note("named for nothing", where, reasons if file.whole else [])
        self.note_if(file.told and not reasons, "not named", where, f"has {text!r:.80}")
        self.note("escapes", where, [reason for reason in reasons if UNSEEN.search(reason)])

    def folders(self) -> None:
        """Links of all kinds below a folder, and what would block whoever opens it."""
        with tempfile.TemporaryDirectory() as holder:
            outside, folder = Path(holder, "outside"), Path(holder, "folder")
            hostile = _write_folder(outside, folder)
            said = self._read(str(folder), "links", SECONDS)
            self.counts["links"] = len(hostile)
            if said:
                held = [name for name, text in said["texts"].items() if SECRET in text or "root:" in text]
                self.note("read outside the folder", "links", held)
                self.note("links not named", "links", [name for name in hostile if name not in said["unread"]])
                self.note("words lost", "links", {"A good file.", "Another."} - {*said["texts"].values()})

    def _read(self, folder: str, where: str, seconds: float) -> dict[str, Any]:
        """What a process read; nothing if it did not end well, which is noted, as is what it took."""
        ended = run_command(["-c", READING, folder], Path.cwd(), seconds + SLACK)
        self.most("peak MiB of a process", ended.mib)
        self.most("longest seconds", round(ended.seconds, 1))
        self.note_if(ended.hung, "hangs", where, ended)
        self.note_if(ended.mib > MOST_MIB, "too large", where, ended)
        self.note_if(ended.status, "broke off", where, ended)
        return {} if ended.status else json.loads(ended.out)


def _write_folder(outside: Path, folder: Path) -> list[str]:
    """A folder with three files, and the names of what else is in it and must be named."""
    for made in (outside / "sub", folder / "below", folder / ".hidden"):
        made.mkdir(parents=True)
    for path in (outside / "x.md", outside / "sub" / "y.txt", folder / ".hidden" / "z.md"):
        path.write_text(SECRET if outside in path.parents else "hidden")
    (folder / "good.md").write_text("A good file.")
    (folder / "below" / "deep.txt").write_text("Another.")
    links = {
        "out.md": "../outside/x.md", "absolute.txt": f"{outside}/x.md", "passwd.txt": "/etc/passwd",
        "folder-out": "../outside",
        "root": "/", "chain.md": "chain2.md", "chain2.md": "out.md", "itself.md": "itself.md", "a.md": "b.md",
        "b.md": "a.md",
        "up": ".", "below/up": "..", "below/further": "../..", "gone.md": "gone", "zero.txt": "/dev/zero",
        "stdin.txt": "/dev/stdin",
        "tty.txt": "/dev/tty", "proc.txt": "/proc/self/environ", "hidden": ".hidden", "dir.md": "below",
        "sub.md": "../outside/sub",
        "through.md": "up/../../outside/x.md", "fd.txt": "/proc/self/fd/0", "below/side": "../below",
        "pipe2.txt": "pipe.txt", "within.md": "below/deep.txt",
    }  # fmt: skip
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket.txt"))
    return [*links, "pipe.txt", "socket.txt"]


def run(seed: int = 0) -> Findings:
    """What is read fast, in folders; each file that takes time or memory alone; and the folder of links."""
    campaign = run_light(seed, soups=1_000, broken=1_000)
    for file in heavy_files(random.Random(seed)):
        campaign.read([file])
    return campaign


def heavy_files(rng: random.Random) -> Iterable[HostileFile]:
    return chain(heavy_texts(rng), heavy_pages(rng), heavy_pdfs(rng), heavy_docx(rng))


def run_light(seed: int, soups: int, broken: int) -> _Campaign:
    """What is read fast, and the folder of links."""
    rng, campaign = random.Random(seed), _Campaign()
    files = [*light_texts(rng), *light_pages(rng, soups), *light_pdfs(rng, broken), *light_docx(rng, broken)]
    for at in range(0, len(files), TOGETHER):
        campaign.read(files[at : at + TOGETHER])
    campaign.folders()
    return campaign
