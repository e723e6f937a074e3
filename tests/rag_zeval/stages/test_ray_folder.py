from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rag_zeval.stages.ray_folder import ray_folder


def test_ray_folder_is_short_and_removed_even_after_a_kill(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    with ray_folder(deep) as first:
        assert first.is_dir() and len(str(first)) < 45
    assert not first.exists()
    code = (
        f"import os, pathlib, sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from rag_zeval.stages.ray_folder import ray_folder\n"
        f"with ray_folder(pathlib.Path({str(deep)!r})) as f: print(f, flush=True); os.kill(os.getpid(), 9)"
    )
    left = Path(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout.strip())
    assert left.is_dir()
    with ray_folder(deep) as second:
        assert second != left and not left.exists()
