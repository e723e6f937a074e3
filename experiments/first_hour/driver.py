"""The checks in their order: each in a process of its own, its result kept, the report written anew after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.first_hour import collectives, machine, packages, training, vllm_engine, weight_transfer
from experiments.first_hour.processes import last_line, last_lines, run
from experiments.first_hour.scene import CannotRun, CheckFailed, Scene
from experiments.markdown import fill
from rag_zeval.errors import InputError
from rag_zeval.files import read_json, write_json, write_text
from train.leftovers import stop_leftovers

PASS, FAIL, CANNOT = "PASS", "FAIL", "CANNOT RUN HERE"
EXITS = {PASS: 0, FAIL: 1, CANNOT: 3}  # of a check's process; any other is a FAIL too
LINES = 15  # of a check's output in the report


@dataclass(frozen=True)
class Check:
    """`run` prints what it sees and returns, or raises CheckFailed or CannotRun; it has so many minutes."""

    name: str
    risk: str
    run: Callable[[Scene], None]
    minutes: float = 5


CHECKS = (
    Check("machine", "memory, disk or /dev/shm run out hours later", machine.machine),
    Check("gpus", "fewer or smaller GPUs than planned, or others' work on them", machine.gpus),
    Check("packages", "another version than was tested", packages.packages),
    Check("kernels", "log-probabilities in bf16, flash-attn not built for these GPUs", packages.kernels),
    Check("collectives", "NCCL hangs, or is slow", collectives.collectives),
    Check("weights", "new weights reach the rollouts changed, or not at all", weight_transfer.weights, 15),
    Check("sleep", "vLLM keeps its memory asleep, or wakes up with other weights", vllm_engine.sleep, 15),
    Check("tiny-train", "verl, its rollouts, checkpoints, resuming, export", training.tiny_train, 60),
    Check("smoke", "the exported model cannot be read", vllm_engine.smoke),
    Check("serve", "vLLM does not serve the exported model", vllm_engine.serve, 15),
    Check("plan", "verl refuses the real run, or it does not fit", training.plan),
    Check("first-steps", "the real model does not train, or takes too long", training.first_steps, 60),
)


@dataclass(frozen=True)
class Result:
    """How a check ended, and what it said last; `facts`: the machine it ran on."""

    name: str
    risk: str
    status: str
    reason: str
    seconds: float
    lines: list[str]
    facts: dict[str, str]


def run_hour(scene: Scene, alone: Callable[[str], list[str]], checks: Sequence[Check] = CHECKS) -> int:
    """All checks up to the first that fails; 1 if one did. Those that passed on this very machine are not run again.

    alone: the command of one check by its name; its exit status is one of EXITS, its last line the reason.
    """
    facts = machine.machine_facts(machine.list_gpus())
    facts["checks"] = f"PROFILE={scene.profile}, {f'{scene.gpus} GPUs' if scene.gpus else 'on the CPU at nano scale'}"
    results: list[Result] = []
    for check in checks:
        kept = scene.folder / f"{check.name}.json"
        if (before := passed_before(kept, facts)) is not None:
            print(f"{check.name}: PASS in an earlier run ({before.seconds:.0f} s), not repeated")
            results.append(before)
            continue
        print(f"{check.name}: {check.risk}?", flush=True)
        results.append(result := run_check(scene, check, alone(check.name), facts))
        reason = f": {result.reason}" if result.reason else ""
        print(f"{check.name}: {result.status} in {result.seconds:.0f} s{reason}", flush=True)
        write_json(kept, asdict(result))
        write_report(scene, results, len(checks), facts)
        if result.status == FAIL:
            break
    report = write_report(scene, results, len(checks), facts)
    print(f"report: {report}")
    print(summary(results, len(checks)))
    return int(results[-1].status == FAIL)


def run_check(scene: Scene, check: Check, alone: Sequence[str], facts: dict[str, str]) -> Result:
    """One check in a process of its own: what it takes of a GPU ends with it, and a crash is a FAIL."""
    log, begun = scene.folder / f"{check.name}.log", time.monotonic()
    code = run(alone, log, check.minutes * 60, lambda line: print(f"  {line}", flush=True))
    seconds = time.monotonic() - begun
    if code is None:
        for folder in (scene.folder / "tiny-train", scene.folder / "first-steps"):
            if folder.exists():
                stop_leftovers(folder)
        status, reason = FAIL, f"it did not end within {check.minutes:g} minutes"
    else:
        status = next((status for status, known in EXITS.items() if known == code), FAIL)
        reason = "" if status == PASS else last_line(log)
        if code not in EXITS.values():
            reason = f"its process ended with {code}: {reason}"
    return Result(check.name, check.risk, status, reason, round(seconds, 1), last_lines(log, LINES), facts)


def run_alone(scene: Scene, name: str) -> int:
    """One check in this process, its output on the terminal; an exit status of EXITS. Raises InputError for a name."""
    chosen = [check for check in CHECKS if check.name == name]
    if not chosen:
        raise InputError(f"only={name}: there is {', '.join(check.name for check in CHECKS)}")
    try:
        chosen[0].run(scene)
    except (CheckFailed, CannotRun) as reason:
        print(reason)
        return EXITS[FAIL if isinstance(reason, CheckFailed) else CANNOT]
    return EXITS[PASS]


def passed_before(kept: Path, facts: dict[str, str]) -> Result | None:
    """The result of an earlier run, if it passed on a machine that looked the same."""
    if not kept.exists():
        return None
    result = Result(**read_json(kept))
    return result if result.status == PASS and result.facts == facts else None


def write_report(scene: Scene, results: list[Result], total: int, facts: dict[str, str]) -> Path:
    """`report.md` of the folder."""
    report = scene.folder / "report.md"
    write_text(report, fill("first_hour.md.j2", facts=facts, results=results, summary=summary(results, total)))
    return report


def summary(results: list[Result], total: int) -> str:
    """The last line: what passed, failed, could not run, and was not come to."""
    count = {status: [r.name for r in results if r.status == status] for status in (PASS, FAIL, CANNOT)}
    parts = [f"{len(count[PASS])} of {total} checks passed"]
    if count[FAIL]:
        parts.append(f"FAILED: {', '.join(count[FAIL])}")
    if count[CANNOT]:
        parts.append(f"{len(count[CANNOT])} could not run here: {', '.join(count[CANNOT])}")
    if left := total - len(results):
        parts.append(f"{left} not reached")
    return "; ".join(parts)
