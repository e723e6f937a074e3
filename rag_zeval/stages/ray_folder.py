"""The folder for the sockets and logs of a run's own ray: outside the run's folder, and removed with the run."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "rz_"
NOTE = "ray_tmp"  # the file in the run's folder that holds the path of ray's folder


@contextmanager
def ray_folder(out_dir: Path) -> Iterator[Path]:
    """Create a folder for ray's sockets and logs, and remove it afterwards. Also remove one that a killed attempt left.

    It is in the system's temporary folder, because a unix socket's path has at most 107 bytes, and `out_dir` may be
    long.
    """
    remove_ray_folder(out_dir)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base()))
    (out_dir / NOTE).write_text(str(folder), encoding="utf-8")
    try:
        yield folder
    finally:
        remove_ray_folder(out_dir)


def remove_ray_folder(out_dir: Path) -> None:
    """Remove the ray folder of a run's last attempt, if it left one.

    If a ray that failed to start still writes there, the folder's path stays noted, and the next attempt removes it.
    Only a folder where `ray_folder` makes them is removed, whatever the note names.
    """
    note = out_dir / NOTE
    if note.exists():
        folder = Path(note.read_text(encoding="utf-8").strip())
        if folder.parent == _base() and folder.name.startswith(PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            note.unlink()


def _base() -> Path:
    base = tempfile.gettempdir()
    return Path(base if len(base) < 30 else "/tmp")
