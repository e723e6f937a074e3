"""The rehearsal from nothing: model, answers, a run that is killed and resumed, one undisturbed, a served judge."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.driver import StageError, StageProcesses
from experiments.plan import Command
from experiments.rehearsal import checks, serving, tiny_model
from experiments.rehearsal.checks import Check
from experiments.rehearsal.differences import EXACT, Difference, changed, differences, places, unlisted, words
from rag_zeval.errors import InputError
from rag_zeval.files import write_json
from rag_zeval.stages.memory import watched
from train.leftovers import all_segments, stop_leftovers

NANO_BASE = Path(__file__).resolve().parents[2] / "checkpoints" / "nano-base"
QUESTIONS = 80  # a third of them can be shown with four answers
STEPS, KILLED_AFTER, SAVED = 4, 3, 2  # with the rows of differences.ALWAYS: killed after step 3, resumed after step 2
ROLLOUTS = 16  # of a step: 2 prompts x 8
MINUTES, GIB = 20, 16
MARK = "checks.json"
# vLLM's CPU build: room for keys and values in GiB, and threads that may run anywhere
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class Run:
    """One training run of the rehearsal."""

    profile: str
    folder: Path
    responses: Path
    base: Path
    exact: bool

    @property
    def places(self) -> dict[str, Difference]:
        return places(self.folder, self.responses, self.base)

    @property
    def differences(self) -> dict[str, Difference]:
        return differences(self.profile, exact=self.exact)

    @property
    def command(self) -> Command:
        return Command("train", tuple(words(self.profile, self.places, self.differences)), {})


def rehearse(profile: str, folder: Path) -> int:
    """Make the folder anew, rehearse, print and write the table of checks; 1 if one failed.

    Raises InputError for a profile that is not of the GPU lane, and for a folder that holds something else.
    """
    exact = Run(profile, folder / "exact", folder / "answers" / "responses.jsonl", folder / "base", exact=True)
    own = replace(exact, folder=folder / "own-precision", exact=False)
    _show_settings(exact)
    _clear(folder)
    os.environ.update({name: os.environ.get(name, value) for name, value in VARIABLES.items()})
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # ninja
    started, before = time.monotonic(), all_segments()
    found = [_listed(exact), _listed(own)]
    with watched() as memory:
        prepare(exact)
        try:
            found += _interrupted(exact, before)
            found += _undisturbed(own, before)
            found += serving.answers(exact.folder / "model", NANO_BASE, folder / "serve.log")
        except (StageError, InputError) as error:
            found.append(Check("every stage ends well, and leaves its files", False, str(error)))
    minutes = (time.monotonic() - started) / 60
    found.append(Check(f"it takes less than {MINUTES} minutes", minutes < MINUTES, f"{minutes:.1f} minutes"))
    taken = f"at most {memory.taken:.1f} GiB more than before it"
    found.append(Check(f"it takes less than {GIB} GiB", memory.taken < GIB, taken))
    _show(found)
    write_json(folder / MARK, [check._asdict() for check in found])
    return 0 if all(check.passed for check in found) else 1


def prepare(run: Run) -> None:
    """The tiny model and the answers it is trained on. Raises StageError."""
    tiny_model.make(NANO_BASE, run.base)
    answers = run.responses.parent
    asked = ("profile=nano", f"n_questions={QUESTIONS}", f"out_dir={answers}")
    StageProcesses().run(Command("synthesize", asked, {}), answers.parent / "synthesize.log", "answers")


def _clear(folder: Path) -> None:
    """An empty folder, marked as a rehearsal's; what runs of one that was killed have left behind goes first."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise InputError(f"{folder} holds something other than a rehearsal: choose another out_dir")
    for run in (path.parent for path in folder.glob("*/run.json")):
        stop_leftovers(run)
    shutil.rmtree(folder, ignore_errors=True)
    write_json(folder / MARK, [])


def _listed(run: Run) -> Check:
    others = unlisted(run.profile, run.places, run.differences)
    figure = (
        f"{len(run.differences)} are listed, {len(others)} others differ{': ' if others else ''}{', '.join(others)}"
    )
    return Check(f"only listed settings differ ({run.folder.name})", not others, figure)


def _interrupted(run: Run, before: set[Path]) -> list[Check]:
    """A run that is killed, and taken up again."""
    train_until(run, KILLED_AFTER)
    undisturbed = checks.rollouts_by_prompt(run.folder, KILLED_AFTER)
    train(run)
    return [
        checks.weights_arrive(run.folder),
        checks.nothing_stays_nan(run.folder),
        *_of_lora(run),
        checks.greedy_is_transformers(run.folder),
        checks.steps_follow(run.folder, STEPS, attempts=2),
        checks.resumed_as_before(undisturbed, checks.rollouts_by_prompt(run.folder, KILLED_AFTER), KILLED_AFTER),
        checks.exported(run.folder, run.base),
        checks.nothing_is_left("by a run that was killed and resumed", run.folder, before),
    ]


def _undisturbed(run: Run, before: set[Path]) -> list[Check]:
    train(run)
    return [
        checks.rollouts_agree(run.folder),
        checks.nothing_stays_nan(run.folder),
        *_of_lora(run),
        checks.steps_follow(run.folder, STEPS, attempts=1),
        checks.nothing_is_left("by a run in its own precision", run.folder, before),
    ]


def _of_lora(run: Run) -> list[Check]:
    lora = changed(run.profile, ["verl.actor_rollout_ref.model.lora_rank"]).popitem()[1]
    return [checks.adapters_arrive(run.folder)] if lora else []


def train(run: Run) -> None:
    """Train to the end, or on from where the run was cut off. Raises StageError."""
    StageProcesses().run(run.command, run.folder.parent / f"{run.folder.name}.log", run.folder.name)


def train_until(run: Run, step: int) -> None:
    """Train until this step is logged with its rollouts, then SIGKILL. Raises StageError if the run ends before."""
    log = run.folder.parent / f"{run.folder.name}.log"
    rollouts = run.folder / "rollouts" / "train" / f"{step}.jsonl"
    with log.open("ab") as out:
        stage = subprocess.Popen([sys.executable, *run.command.argv], stdout=out, stderr=out)
        try:
            while not (checks.moved_on(run.folder, step) and rollouts.exists() and _lines(rollouts) == ROLLOUTS):
                if stage.poll() is not None:
                    last = " / ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])
                    raise StageError(f"train ended with code {stage.returncode} before it was killed ({log}): {last}")
                time.sleep(0.2)
        except BaseException:  # Ctrl-C: it leaves nothing behind, for nobody takes it up
            stage.terminate()
            stage.wait()
            raise
        stage.send_signal(signal.SIGKILL)
        stage.wait()


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _show_settings(run: Run) -> None:
    listed = {**run.places, **run.differences}
    profiles = changed(run.profile, listed)
    table = Table("setting", f"profile={run.profile}", "rehearsal", "why", title="Settings that differ")
    for key, (value, reason) in listed.items():
        only = " (the exact run only)" if key in EXACT else ""
        table.add_row(key, _cell(profiles[key]), _cell(value), reason + only)
    Console(width=180).print(table)


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {part}" for key, part in value.items())
    return "–" if value is None else str(value)


def _show(found: Sequence[Check]) -> None:
    table = Table("check", "", "figure", title="Rehearsal")
    for name, passed, figure in found:
        table.add_row(name, "PASS" if passed else "FAIL", figure)
    Console(width=180).print(table)
