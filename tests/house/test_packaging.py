"""What is built, and what an installation exposes."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rag_zeval
from rag_zeval.errors import EXTRAS
from rag_zeval.scorers.registry import SCORERS

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("rewards", "synthesize", "train", "eval_benchmarks", "experiments")
SHARED = ROOT / "rag_zeval" / "stages"  # what only the stages share
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "rag_zeval", *STAGES, "configs", "tests")


def shipped() -> list[Path]:
    """The files of rag_zeval that belong in the wheel."""
    found = (path for path in (ROOT / "rag_zeval").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path for path in found if SHARED not in path.parents]


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> zipfile.ZipFile:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-q"]
    built = subprocess.run([*pip, "-w", checkout / "dist", checkout], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = (checkout / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_ships_rag_zeval_without_what_only_the_stages_share(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(ROOT).as_posix() for path in shipped()}
    assert any(name.startswith("rag_zeval/judge/prompts/") and name.endswith(".txt") for name in names)


def test_the_wheel_says_its_version_licence_and_pythons_and_needs_nothing_heavy(wheel: zipfile.ZipFile) -> None:
    [path] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(path).decode())
    assert metadata["Version"] == rag_zeval.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata["Requires-Python"].split(",")) == {">=3.10", "<3.13"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    requirements = metadata.get_all("Requires-Dist") or []
    plain = {re.split(r"[^\w-]", r)[0].lower() for r in requirements if "extra ==" not in r}
    heavy = "torch verl vllm ray transformers scipy openai omegaconf pydantic".split()
    assert plain and plain.isdisjoint(heavy)
    assert f"version: {rag_zeval.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"[{rag_zeval.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def requirements(wheel: zipfile.ZipFile) -> dict[str, set[str]]:
    """The packages that each extra brings by itself; those of "" come with every installation."""
    [path] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(path).decode())
    found = defaultdict(set)
    for line in metadata.get_all("Requires-Dist") or []:
        extra = re.search(r"extra == .(\w+)", line)
        found[extra[1] if extra else ""].add(Requirement(line).name)
    return found


def test_a_missing_package_is_said_with_the_extra_that_brings_it(wheel: zipfile.ZipFile) -> None:
    """Every package that the library imports comes with it, or stands in EXTRAS as it stands in pyproject.toml."""
    brought = requirements(wheel)
    extras = ("api", "local", "vllm", "scorers", "evaluate")
    assert {name: extra for extra in extras for name in brought[extra] - {"rag-zeval"}} == EXTRAS
    distributions = packages_distributions()
    brought_along = {"anyio", "markupsafe"}  # by openai and jinja2
    for path in (path for path in shipped() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (
                {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"rag_zeval"} - brought_along
            ):
                known = {one.lower().replace("_", "-") for one in distributions.get(name, [name])}
                assert known & {*brought[""], *EXTRAS} or path.parent.name == "adapters", f"{path} imports {name}"


def test_the_wheel_alone_lists_its_scorers(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")  # what pip does with a wheel, but for the script
    program = "import sys; sys.argv[1:] = ['scorers']; from rag_zeval import cli; print(cli.__file__); cli.main()"
    line = [sys.executable, "-c", program]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ran = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    first, shown = ran.stdout.split("\n", 1)
    assert first.startswith(str(tmp_path)) and set(SCORERS) <= set(re.findall(r"\w+", shown))


def test_an_editable_install_exposes_the_stages(checkout: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "-q"]
    installed = subprocess.run([*pip, "--target", tmp_path / "site", "-e", checkout], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    program = f"""
import site, sys
site.addsitedir({str(tmp_path / "site")!r})
sys.path.insert(0, sys.path.pop())  # before any other installation of this project
import rag_zeval.stages, rewards, synthesize, train, eval_benchmarks, experiments
print(*(m.__file__ for m in (rag_zeval, rewards, synthesize, train, eval_benchmarks, experiments)), sep="\\n")
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(checkout / name / "__init__.py") for name in ("rag_zeval", *STAGES)]


def test_tests_is_no_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py")), "verl installs a top-level package called tests"


def test_every_name_in_the_requirements_is_pinned_in_the_lock() -> None:
    def name_of(line: str) -> str:
        return re.split(r"[^\w.-]", line)[0].lower().replace("_", "-")

    folder = ROOT / "requirements"
    for lane in ("nano", "gpu"):
        direct = [line for name in ("common", lane) for line in (folder / f"{name}.in").read_text().splitlines()]
        pins = [line for line in (folder / f"{lane}.txt").read_text().splitlines() if not line.startswith("#")]
        assert all(re.match(r"[\w.-]+==[\w.+]+( ; .+)?$", pin) for pin in pins)
        assert {name_of(line) for line in direct if line[:1].isalnum()} <= {name_of(pin) for pin in pins}
