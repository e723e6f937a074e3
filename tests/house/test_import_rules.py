"""Who may import whom, and that nothing heavy is loaded before it is needed. The rules, all of them:

- A room imports only rooms below it, and what only the stages share no library module: the contracts of import-linter
  in pyproject.toml, which `make lint` checks.
- No module imports itself by way of others, and a way down through a package has few floors.
- Heavy packages are imported by the functions that need them. TORCH_MODULES and VERL_WORKER_MODULES, which are the
  heavy part, may import them at their top, and nothing else may import those there.
- `import rag_zeval` and each `--help` load nothing heavy and answer at once.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rag_zeval", "rewards", "synthesize", "train", "eval_benchmarks", "experiments")
HEAVY = {"torch", "verl", "vllm", "ray", "transformers"}
SLOW_TO_LOAD = HEAVY | {"datasets", "matplotlib", "openai", "pandas", "scipy", "transfer_queue"}
# Modules that are themselves the heavy part: nothing else may import them at its top (but they may, each other).
TORCH_MODULES = {
    *("rag_zeval.models.decoding", "synthesize.answering", "synthesize.cad", "synthesize.vllm_cad"),
    *("train.chosen_tokens", "train.one_gpu.sampler", "train.one_gpu.training", "train.rollouts.decoder"),
}
VERL_WORKER_MODULES = {
    *("experiments.first_hour", "experiments.timing.step_sides"),  # a check is a process of its own, which needs torch
    *("train.linear_decay", "train.rollouts.ordered_buffer", "train.rollouts.seeded_loop", "train.verl_cpu"),
    *(f"train.verl_rehearsal.{name}" for name in ("engine", "plugin", "server", "worker")),
}
MOST = 10  # times the CPU seconds of importing typer, which each command does: 5 to 7 as measured on two machines
COMMANDS = (
    "-c 'import rag_zeval'", "-m rag_zeval --help", "-m rag_zeval evaluate --help", "-m rag_zeval serve --help",
    *(f"-m rag_zeval {name} --help" for name in "compare gate questions collect check-set sample audit".split()),
    "-m rag_zeval scorers", "-m rag_zeval mock-judge --help", "-m synthesize --help", "-m train --help",
    "-m train.sft --help", "-m train.one_gpu --help", "-m train.nano.base --help", "-m eval_benchmarks --help",
    "-m eval_benchmarks.datasets.download --help", "-m experiments --help", "-m experiments.run_report --help",
    "-m experiments.dynamics --help", "-m experiments.first_hour --help",
    "-m experiments.timing.decoding_speed --help", "-m experiments.timing.step_speed --help",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Dotted name -> file, for every module of the packages."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_at_top(nodes: list[ast.stmt]) -> Iterator[str]:
    """Dotted names that running a module's top level imports; functions and `if TYPE_CHECKING` do not run."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imported_at_top(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            blocks = (getattr(node, field, []) for field in ("body", "orelse", "finalbody"))
            yield from (name for block in blocks for name in imported_at_top(block))
            for handler in getattr(node, "handlers", []):
                yield from imported_at_top(handler.body)


def within(name: str, allowed: set[str]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in allowed)


@pytest.mark.parametrize("name", modules())
def test_only_the_heavy_modules_import_heavy_packages_at_their_top(name: str) -> None:
    heavy_modules = TORCH_MODULES | VERL_WORKER_MODULES
    if within(name, heavy_modules):
        return
    imported = set(imported_at_top(ast.parse(modules()[name].read_text()).body))
    assert not {i for i in imported if i.split(".")[0] in SLOW_TO_LOAD or within(i, heavy_modules)}


@pytest.mark.parametrize("name", sorted(TORCH_MODULES))
def test_what_needs_torch_alone_does_not_wait_for_verl(name: str) -> None:
    imported = set(imported_at_top(ast.parse(modules()[name].read_text()).body))
    assert not {i for i in imported if within(i, {"verl"} | VERL_WORKER_MODULES)}


def test_the_list_of_heavy_modules_is_current() -> None:
    for listed in TORCH_MODULES | VERL_WORKER_MODULES:
        texts = [path for name, path in modules().items() if within(name, {listed})]
        imported = {i.split(".")[0] for path in texts for i in imported_at_top(ast.parse(path.read_text()).body)}
        assert imported & SLOW_TO_LOAD, f"{listed} need not be listed"


def test_the_reader_of_imports_sees_what_runs_and_only_that() -> None:
    source = """
import a
from b.c import d
try:
    import e
except ImportError:
    import f
class C:
    import g
if TYPE_CHECKING:
    import never
else:
    import h
def function():
    import never
"""
    assert set(imported_at_top(ast.parse(source).body)) == {"a", "b.c.d", "e", "f", "g", "h"}


def cpu_seconds(command: str) -> tuple[float, str]:
    """Run Python with these arguments. Return its CPU seconds and what it wrote about its imports."""
    line = [sys.executable, "-X", "importtime", *shlex.split(command)]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, errors[-2000:]
    return usage.ru_utime + usage.ru_stime, errors


@cache
def typer_seconds() -> float:
    return cpu_seconds("-c 'import typer'")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy_and_answers_at_once(command: str) -> None:
    ratios = []
    for _ in range(3):  # the best of three: other work on the machine slows a process down, never up
        seconds, errors = cpu_seconds(command)
        loaded = {m[1].split(".")[0] for m in re.finditer(r"^import time:.*\|\s+([\w.]+)$", errors, re.MULTILINE)}
        assert len(loaded) > 1, "nothing was seen to be imported"
        without_numpy = command.startswith(("-m rag_zeval ", "-m eval_benchmarks "))
        assert not loaded & (SLOW_TO_LOAD | ({"numpy"} if without_numpy else set()))
        ratios.append(seconds / typer_seconds())
        if ratios[-1] < MOST:
            return
        typer_seconds.cache_clear()  # the machine may have become slower since
    assert min(ratios) < MOST


@cache
def import_graph() -> dict[str, set[str]]:
    """For each module those of ours that it imports: at its top, in its functions and for type checkers alone."""
    graph = grimp.build_graph(*PACKAGES)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(import_graph()).prepare()  # raises CycleError, which names the circle


def rooms_of(package: str, depth: int) -> dict[str, set[str]]:
    """The imports between the rooms of a package, with names of so many words; `__main__` opens the door."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, imported in import_graph().items():
        room, *others = (".".join(one.split(".")[:depth]) for one in (name, *imported))
        if within(name, {package}) and name != "rag_zeval.__main__":
            rooms[room] |= {other for other in others if within(other, {package})} - {room}
    return rooms


@pytest.mark.parametrize(
    ("package", "depth", "most"),
    [("rag_zeval", 2, 10), ("eval_benchmarks", 9, 8)],  # sub-packages and modules beside them; all modules
)
def test_floors_are_few(package: str, depth: int, most: int) -> None:
    chains: dict[str, list[str]] = {}  # of each room the longest way down
    rooms = rooms_of(package, depth)
    for room in TopologicalSorter(rooms).static_order():
        chains[room] = [room, *max((chains[other] for other in rooms[room]), key=len, default=[])]
    longest = max(chains.values(), key=len)
    assert len(longest) <= most, " > ".join(longest)
