from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from train.launch import KEEP_MEMORY

# small blocks in between keep the heap from shrinking at its end
PROGRAM = """
import psutil, torch
from verl.utils.device import get_torch_device
blocks = [torch.ones(size) for _ in range(200) for size in (262_144, 16)]
kept = blocks[1::2]
del blocks
process = psutil.Process()
freed = process.memory_info().rss
get_torch_device().empty_cache()  # as verl calls it
print((freed - process.memory_info().rss) >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_freed_memory_goes_back_to_the_system(repository: Path) -> None:
    platform = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "train.verl_cpu"}
    env = {**os.environ, **platform, "GLIBC_TUNABLES": KEEP_MEMORY, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=repository, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 150  # MiB, of 200
