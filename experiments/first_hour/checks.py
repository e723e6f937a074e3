"""The checks of the first hour and of the rehearsal, in order.

Each check runs in its own process. Its result is stored and the report updated after it.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig

from experiments.first_hour import between_processes, machine, packages, training, vllm_engine
from experiments.first_hour.scene import FIRST_HOUR, LANES, REHEARSAL, CannotRun, CheckFailed, Scene, read_scene
from experiments.markdown import fill
from rag_zeval.errors import InputError
from rag_zeval.files import read_json, write_json, write_text
from rag_zeval.stages.processes import last_line, last_lines, python_module, run
from train.leftovers import stop_leftovers

PASS, FAIL, CANNOT = "PASS", "FAIL", "CANNOT RUN HERE"
EXITS = {PASS: 0, FAIL: 1, CANNOT: 3}  # exit statuses of a check's process; any other is a FAIL too
LINES = 15  # last lines of a check's output in the report
RESULTS = "checks.json"
# Environment of a rehearsal. vLLM's CPU build gets 1 GiB for keys and values, and its threads are not bound to cores.
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class HourCheck:
    """A check and the risk that it tests.

    run: prints what it finds, and raises CheckFailed or CannotRun unless it passes. minutes: its time limit. lanes: the
    lanes that include it.
    """

    name: str
    risk: str
    run: Callable[[Scene], None]
    minutes: float = 5
    lanes: Sequence[str] = (FIRST_HOUR,)


CHECKS = (
    HourCheck("machine", "memory, disk or /dev/shm run out hours later", machine.machine),
    HourCheck("gpus", "fewer or smaller GPUs than planned, or others' work on them", machine.gpus),
    HourCheck("packages", "another version than was tested", packages.packages),
    HourCheck("kernels", "log-probabilities in bf16, flash-attn not built for these GPUs", packages.kernels),
    HourCheck("collectives", "NCCL hangs, or is slow", between_processes.collectives),
    HourCheck("weights", "new weights reach the rollouts changed, or not at all", between_processes.weights, 15),
    HourCheck("sleep", "vLLM keeps its memory asleep, or wakes up with other weights", vllm_engine.sleep, 15),
    HourCheck("tiny-train", "verl, its rollouts, checkpoints, resuming, export", training.tiny_train, 60, LANES),
    HourCheck("own-precision", "the same in the profile's own precision", training.own_precision, 60, (REHEARSAL,)),
    HourCheck("smoke", "the exported model cannot be read", vllm_engine.smoke),
    HourCheck("serve", "vLLM does not serve the exported model", vllm_engine.serve, 15, LANES),
    HourCheck("plan", "verl refuses the real run, or it does not fit", training.plan),
    HourCheck("first-steps", "the real model does not train, or takes too long", training.first_steps, 60),
)


@dataclass(frozen=True)
class CheckResult:
    """How a check ended, and its last lines. facts: the machine that it ran on."""

    name: str
    risk: str
    status: str
    reason: str
    seconds: float
    lines: list[str]
    facts: dict[str, str]


def run_checks(config: DictConfig, words: Sequence[str]) -> int:
    """Run the checks that the configuration chooses, and return the exit status.

    words: the command line that made the configuration; the checks' processes get it too. Raises InputError as
    `read_scene`, `run_alone` and `clear` do.
    """
    scene = read_scene(config)
    if scene.lane == REHEARSAL:  # variables that the user has set keep their values
        os.environ.update({**VARIABLES, **os.environ})
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # ninja
    if config.only is not None:
        return run_alone(scene, str(config.only))
    if scene.lane == REHEARSAL:
        clear(scene.folder)
    return run_hour(scene, lambda name: python_module("experiments.first_hour", *words, f"only={name}"))


def run_hour(scene: Scene, alone: Callable[[str], list[str]], checks: Sequence[HourCheck] = CHECKS) -> int:
    """Run the checks of the lane up to the first that fails. Returns 1 if one failed, else 0.

    Checks that passed on the same machine are skipped. alone: returns the command that runs the check of a name. The
    command's exit status is one of EXITS, and its last line is the reason.
    """
    checks = [check for check in checks if scene.lane in check.lanes]
    facts = machine.machine_facts(machine.list_gpus())
    facts["checks"] = f"PROFILE={scene.profile}, {scene.scale}"
    stored = scene.folder / RESULTS
    known = {row["name"]: CheckResult(**row) for row in (read_json(stored, list) if stored.exists() else [])}
    report, title = scene.folder / "report.md", "Rehearsal" if scene.lane == REHEARSAL else "The first hour"
    results: list[CheckResult] = []
    for check in checks:
        result = known.get(check.name)
        if result and result.status == PASS and result.facts == facts:
            print(f"{check.name}: PASS in an earlier run ({result.seconds:.0f} s), not repeated")
        else:
            print(f"{check.name}: {check.risk}?", flush=True)
            result = known[check.name] = run_check(scene, check, alone(check.name), facts)
            reason = f": {result.reason}" if result.reason else ""
            print(f"{check.name}: {result.status} in {result.seconds:.0f} s{reason}", flush=True)
            write_json(stored, [asdict(row) for row in known.values()])
        results.append(result)
        said = summary(results, len(checks))
        write_text(report, fill("first_hour.md.j2", title=title, facts=facts, results=results, summary=said))
        if result.status == FAIL:
            break
    print(f"report: {report}")
    print(said)
    return int(results[-1].status == FAIL)


def clear(folder: Path) -> None:
    """Empty the folder of a rehearsal, and stop the trainings that still run there.

    A rehearsal tests the code and not the machine, so it repeats all checks. Raises InputError for a folder that holds
    something else.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / RESULTS).exists():
        raise InputError(f"{folder} holds something other than a rehearsal: choose another out_dir")
    stop_trainings(folder)
    shutil.rmtree(folder, ignore_errors=True)
    write_json(folder / RESULTS, [])


def stop_trainings(folder: Path) -> None:
    """Kill the processes that trainings in the subfolders have left running."""
    for identity in folder.glob("*/run.json"):
        stop_leftovers(identity.parent)


def run_check(scene: Scene, check: HourCheck, alone: Sequence[str], facts: dict[str, str]) -> CheckResult:
    """Run one check in its own process: it frees its GPU memory when it ends, and a crash is a FAIL."""
    log, begun = scene.folder / f"{check.name}.log", time.monotonic()
    code = run(alone, log, lambda line: print(f"  {line}", flush=True), seconds=check.minutes * 60)
    seconds = time.monotonic() - begun
    status = next((status for status, known in EXITS.items() if known == code), FAIL)
    reason = "" if status == PASS else last_line(log)
    if code is None:
        stop_trainings(scene.folder)
        reason = f"it did not end within {check.minutes:g} minutes"
    elif code not in EXITS.values():
        reason = f"its process ended with {code}: {reason}"
    return CheckResult(check.name, check.risk, status, reason, round(seconds, 1), last_lines(log, LINES), facts)


def run_alone(scene: Scene, name: str) -> int:
    """Run one check in this process, with its output on the terminal. Returns an exit status of EXITS.

    Raises InputError for an unknown name.
    """
    known = {check.name: check for check in CHECKS if scene.lane in check.lanes}
    if name not in known:
        raise InputError(f"only={name}: there is {', '.join(known)}")
    try:
        known[name].run(scene)
    except (CheckFailed, CannotRun) as reason:
        print(reason)
        return EXITS[FAIL if isinstance(reason, CheckFailed) else CANNOT]
    return EXITS[PASS]


def summary(results: list[CheckResult], total: int) -> str:
    """Return the last line of the report: which checks passed, failed, could not run, and were not reached."""
    names = {status: [result.name for result in results if result.status == status] for status in EXITS}
    parts = [f"{len(names[PASS])} of {total} checks passed"]
    parts += [f"FAILED: {', '.join(names[FAIL])}"] if names[FAIL] else []
    cannot, left = names[CANNOT], total - len(results)
    parts += [f"{len(cannot)} could not run here: {', '.join(cannot)}"] if cannot else []
    parts += [f"{left} not reached"] if left else []
    return "; ".join(parts)
