"""What is built, and what an installation exposes."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rag_zeval
from rag_zeval.errors import EXTRAS
from rag_zeval.scorers.registry import SCORERS

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "rag_zeval" / "stages"  # what only the stages share


def shipped() -> list[Path]:
    """The files of rag_zeval that belong in the wheel."""
    found = (path for path in (ROOT / "rag_zeval").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path for path in found if SHARED not in path.parents]


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [path] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return HeaderParser().parsestr(wheel.read(path).decode())


@pytest.fixture(scope="module")
def brought(metadata: Message) -> dict[str, set[str]]:
    """The packages that each extra brings by itself; those of "" come with every installation."""
    found = defaultdict(set)
    for line in metadata.get_all("Requires-Dist") or []:
        extra = re.search(r"extra == .(\w+)", line)
        found[extra[1] if extra else ""].add(Requirement(line).name)
    return found


def test_the_wheel_ships_rag_zeval_without_what_only_the_stages_share(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(ROOT).as_posix() for path in shipped()}
    assert any(name.startswith("rag_zeval/judge/prompts/") and name.endswith(".txt") for name in names)


def test_the_wheel_says_its_version_licence_and_pythons_and_needs_nothing_heavy(
    wheel: zipfile.ZipFile, metadata: Message, brought: dict[str, set[str]]
) -> None:
    assert metadata["Version"] == rag_zeval.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    heavy = "torch verl vllm ray transformers scipy openai omegaconf pydantic".split()
    assert brought[""] and brought[""].isdisjoint(heavy)
    assert f"version: {rag_zeval.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"[{rag_zeval.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_a_missing_package_is_said_with_the_extra_that_brings_it(brought: dict[str, set[str]]) -> None:
    """Every package that the library imports comes with it, or stands in EXTRAS as it stands in pyproject.toml."""
    extras = ("api", "local", "vllm", "scorers", "evaluate")
    assert {name: extra for extra in extras for name in brought[extra] - {"rag-zeval"}} == EXTRAS
    distributions = packages_distributions()
    brought_along = {"anyio", "markupsafe", "pydantic"}  # by openai and jinja2
    for path in (path for path in shipped() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in (
                {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"rag_zeval"} - brought_along
            ):
                known = {one.lower().replace("_", "-") for one in distributions.get(name, [name])}
                assert known & {*brought[""], *EXTRAS} or path.parent.name == "adapters", f"{path} imports {name}"


def test_the_wheel_alone_lists_its_scorers(site: Path, tmp_path: Path) -> None:
    program = "import sys; sys.argv[1:] = ['scorers']; from rag_zeval import cli; print(cli.__file__); cli.main()"
    line = [sys.executable, "-c", program]
    env = {**os.environ, "PYTHONPATH": str(site)}
    ran = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    first, shown = ran.stdout.split("\n", 1)
    assert first.startswith(str(site)) and set(SCORERS) <= set(re.findall(r"\w+", shown))


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
    rooms = ("rag_zeval", "rewards", "synthesize", "train", "eval_benchmarks", "experiments")
    assert ran.stdout.split() == [str(checkout / name / "__init__.py") for name in rooms]


def test_tests_is_no_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py")), "verl installs a top-level package called tests"
