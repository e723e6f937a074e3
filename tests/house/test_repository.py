"""The Makefile, the configuration family, and what may stand in a tracked file."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rag_zeval.stages.config import load_config

ROOT = Path(__file__).resolve().parents[2]
PROFILES = sorted(path.stem for path in (ROOT / "configs" / "profile").glob("*.yaml"))
ON_CPU = ("nano", "short", "small")
PRIVATE = "(^|[^A-Za-z0-9_.~-])/(work|root|home|Users)[/_]"  # folders of one person's machine


def make(*words: str) -> subprocess.CompletedProcess[str]:
    ours = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PROFILE", "ARGS", "DRY_RUN", "VENV", "PYTHON", "PIP_ARGS", "MODEL")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(["make", "--no-print-directory", *words], cwd=ROOT, env=clean, capture_output=True, text=True)


def targets() -> list[str]:
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return phony.split()


def test_make_alone_lists_every_target_with_a_line_each() -> None:
    helped = make()
    assert helped.returncode == 0
    lines = dict(line.split(maxsplit=1) for line in helped.stdout.splitlines() if line.startswith("  "))
    assert list(lines) == targets()
    rules = re.findall(r"^([a-z][a-z-]*):(?! export)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(rules) == sorted(targets())


@pytest.mark.parametrize("target", [t for t in targets() if t not in ("help", "clean", "parity", "docs")])
def test_every_target_makes_its_environment(target: str, tmp_path: Path) -> None:
    for profile in PROFILES:
        planned = make("--dry-run", target, f"PROFILE={profile}", f"VENV={tmp_path}/venv")
        assert planned.returncode == 0, planned.stderr
        on_cpu = profile in ON_CPU or target == "rehearse"
        assert f"-r requirements/{'nano' if on_cpu else 'gpu'}.txt" in planned.stdout


def test_parity_makes_an_environment_for_each_original_and_runs_its_recorder() -> None:
    planned = make("--always-make", "--dry-run", "parity").stdout
    locks = sorted(set((ROOT / "requirements" / "parity").glob("*.txt")) - {ROOT / "requirements/parity/deepeval.txt"})
    recorders = sorted((ROOT / "tests" / "rag_zeval" / "scorers" / "parity").glob("record_*.py"))
    assert [lock.stem.replace("-", "_") for lock in locks] == [path.stem.removeprefix("record_") for path in recorders]
    for lock, recorder in zip(locks, recorders, strict=True):
        assert f".venv-parity-{lock.stem}/bin/python -m pip install" in planned
        assert f"-r requirements/parity/{lock.name}" in planned and f"parity/{recorder.name} --check" in planned


def test_arguments_and_profile_reach_the_stage() -> None:
    planned = make("--dry-run", "train", "PROFILE=paper", "ARGS=steps=2 seed=3").stdout
    assert planned.splitlines()[-1] == ".venv-gpu/bin/python -m train profile=paper steps=2 seed=3"


STAND_IN = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
  *judge.processes=1*) echo $$ > base; exec sleep 600;;
  "-m train "*) timeout 60 sh -c 'until [ -s base ]; do sleep 0.1; done' && exit $TRAINED;;
  "-m eval_benchmarks "*) ! kill -0 "$(cat base)" 2> /dev/null;;
esac
"""


@pytest.mark.parametrize(("trained", "code"), [("0", 0), ("3", 2)])
def test_the_base_is_judged_until_training_ends(
    trained: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Python judges the base without end. It is gone before the bench begins, and if training fails."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(STAND_IN)
    python.chmod(0o755)
    (tmp_path / ".ready").touch()
    monkeypatch.setenv("TRAINED", trained)
    made = make("reproduce", f"VENV={tmp_path}", f"RUN={tmp_path}/run")
    assert made.returncode == code, made.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((python.parent / "base").read_text()), 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_dry_run_needs_the_small_environment_only(profile: str, tmp_path: Path) -> None:
    words = ["--dry-run", "train", f"PROFILE={profile}", "ARGS=seed=3"]
    planned = make(*words, "DRY_RUN=1", f"VENV={tmp_path}/venv").stdout
    assert "-r requirements/nano.txt" in planned and "flash-attn" not in planned
    last = make(*words, "DRY_RUN=1").stdout.splitlines()[-1]
    assert last == f".venv/bin/python -m train profile={profile} dry_run=true seed=3"
    assert "dry_run" not in make(*words, "DRY_RUN=0").stdout
    refused = make("--dry-run", "synthesize", "DRY_RUN=1")
    assert refused.returncode != 0 and "DRY_RUN goes with make train, make bench and make paper alone" in refused.stderr


@pytest.mark.parametrize("version", ["3.9.2", "3.13.0"])
def test_another_python_gets_one_clear_line(version: str, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ncase "$1" in --version) echo "Python {version}";; *) exit 1;; esac\n')
    python.chmod(0o755)
    refused = make("env", f"PYTHON={python}", f"VENV={tmp_path}/venv")
    assert refused.returncode != 0
    first, *rest = refused.stderr.splitlines()
    assert first.startswith("error: make needs Python 3.10, 3.11 or 3.12")
    assert f"Python {version}" in first
    assert all(line.startswith("make: ***") for line in rest)
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("stage", sorted(path.stem for path in (ROOT / "configs").glob("*.yaml")))
def test_every_profile_names_only_keys_that_the_stage_has(stage: str, profile: str) -> None:
    assert load_config(stage, [f"profile={profile}"]).profile == profile


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a git checkout")
def test_no_file_names_a_place_on_one_machine() -> None:
    grep = ["git", "grep", "--untracked", "-nIE", PRIVATE]
    found = subprocess.run(grep, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1, found.stdout + found.stderr


ENCODING_AT = {"open": 3, "read_text": 0, "write_text": 1}  # the place of the argument that may name the encoding


def test_no_text_file_is_opened_in_the_encoding_of_the_machine() -> None:
    folders = ("rag_zeval", "rewards", "synthesize", "train", "eval_benchmarks", "experiments")
    for path in (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            called = ast.unparse(call.func)
            name, named = called.rpartition(".")[2], {word.arg for word in call.keywords}
            binary = any(re.search("'[rwax]b'", ast.unparse(argument)) for argument in call.args)
            if (
                name in ENCODING_AT
                and called not in ("write_text", "os.open", "gzip.open", "archive.open")
                and not binary
            ):
                assert "encoding" in named or len(call.args) > ENCODING_AT[name], f"{path}:{call.lineno}"
            assert "encoding" in named or not {"text", "universal_newlines"} & named or name != "run", (
                f"{path}:{call.lineno}"
            )
