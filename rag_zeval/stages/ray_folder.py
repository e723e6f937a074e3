"""Where a ray of a run's own keeps its sockets and logs: outside the run's folder, and gone with the run."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "rz_"
NOTE = "ray_tmp"  # in the run's folder: where ray's is


@contextmanager
def ray_folder(out_dir: Path) -> Iterator[Path]:
    """A fresh folder for ray's sockets and logs, removed afterwards; so is one that a killed attempt left behind.

    It is in the system's temporary folder: a unix socket's path has 107 bytes at most, and `out_dir` may be long.
    """
    remove_ray_folder(out_dir)
    base = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base if len(base) < 30 else "/tmp"))
    (out_dir / NOTE).write_text(str(folder), encoding="utf-8")
    try:
        yield folder
    finally:
        remove_ray_folder(out_dir)


def remove_ray_folder(out_dir: Path) -> None:
    """Remove the folder of a run's last attempt, if it left one.

    Where a ray that could not start still writes there it stays noted, for the next attempt to remove.
    """
    note = out_dir / NOTE
    if note.exists():
        folder = Path(note.read_text(encoding="utf-8").strip())
        if folder.name.startswith(PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            note.unlink()
