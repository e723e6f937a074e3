"""For the tests of the house: the wheel, built once, and settings in which a notebook runs as anybody's."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("rewards", "synthesize", "train", "eval_benchmarks", "experiments")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "rag_zeval", *STAGES, "configs", "tests")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads: building leaves files beside the sources."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, copy)
    return copy


@pytest.fixture(scope="session")
def wheel(checkout: Path) -> zipfile.ZipFile:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-q"]
    built = subprocess.run([*pip, "-w", checkout / "dist", checkout], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = (checkout / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="session")
def site(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel installs, but for the script."""
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    return folder


@pytest.fixture
def jupyter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Settings of a notebook's client in an empty folder, with nobody's own settings of Jupyter."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return {"kernel_name": "python3", "resources": {"metadata": {"path": str(tmp_path)}}}
