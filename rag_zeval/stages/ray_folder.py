"""Where a ray of a run's own keeps its sockets and logs: outside the run's folder, and gone with the run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "rz_"


@contextmanager
def ray_folder(out_dir: Path) -> Iterator[Path]:
    """A fresh folder for ray's sockets and logs, removed afterwards; so is one that a killed attempt left behind.

    It stands in the system's temporary folder: a unix socket's path has 107 bytes at most, and `out_dir` may be long.
    """
    note = out_dir / "ray_tmp"
    if note.exists():
        left = Path(note.read_text().strip())
        if left.name.startswith(PREFIX):
            shutil.rmtree(left, ignore_errors=True)
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base if len(base) < 30 else "/tmp"))
    note.write_text(str(folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():  # else a ray that could not start still writes there: the next attempt removes it
            note.unlink(missing_ok=True)
