"""Run one of verl's trainers: lock the run's folder, start verl, and stop all its processes however the run ends."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, read_json
from rag_zeval.models.folder import model_sha256
from rag_zeval.models.precision import said, speedup
from rag_zeval.stages.config import stored
from rag_zeval.stages.processes import python_module, started
from rag_zeval.stages.ray_folder import ray_folder, remove_ray_folder
from rag_zeval.stages.training_log import read_attempt
from train import freed_memory
from train.checkpoint_files import check_pickles
from train.leftovers import MARK, note_segments, stop_leftovers
from train.plan import long_warmup
from train.rollouts.agreement import Agreement
from train.run_folder import RunFolder, hold
from train.settings import Settings, identity
from train.step_lines import StepLines
from train.verl_config import PPO, build, runtime_env_keys, starts_ray
from train.watch import Watch, bare, names_error

ROOT = Path(__file__).resolve().parent.parent
DTYPE_NAMES = {"fp32": "float32", "bf16": "bfloat16"}  # verl's short names and torch's
STEP = re.compile(r"step:\d+ - ")  # start of verl's line with a step's metrics
WRAPPER = "ray.exceptions.RayTaskError("
DEATH = re.compile(r"class_name: |The actor is dead because")  # lines after ray's error: which process died, and why
POLL_SECONDS = 0.5
NOTE_SECONDS = 10.0  # between two checks of shared memory
MODULES = "VERL_USE_EXTERNAL_MODULES"
PLUGINS = {"cpu": ["train.verl_cpu"], "rehearsal": ["train.verl_cpu", "train.verl_rehearsal.plugin"]}
# Locked by each run with vLLM. verl names the sockets that weights pass through `/tmp/rl-colocate-zmq-JOB-replica-...`,
# and the job has the same number in each ray that a run starts. So one run could get the weights of another.
ALONE = Path("/tmp/rag-zeval-vllm.lock")
ATTEMPT = "=== attempt logged to "  # start of the line above each attempt's output in the log


@contextmanager
def claimed_folder(settings: Settings) -> Iterator[RunFolder | None]:
    """Lock the run's folder and yield it. If the run is finished already, print that and yield None.

    Raises InputError if another process has the folder locked, if it holds a run with other settings, if the model of a
    finished run is missing, or if the run is impossible here now (`check_attention`, `alone`).
    """
    folder = RunFolder(settings.out_dir)
    with folder.locked():
        stop_leftovers(folder.path)  # processes of a killed attempt must not write here while the folder is read
        remove_ray_folder(folder.path)
        folder.claim(identity(settings))
        if folder.manifest.exists():
            if not folder.model.is_dir():
                raise InputError(
                    f"{folder.model}: is missing, although this run is finished. Put it back, or remove "
                    f"{folder.manifest} to export it again or, if its checkpoint is gone too, to train again"
                )
            print(f"done already: {folder.model}")
            yield None
        else:
            check_attention(settings)
            with alone(settings):
                if line := precision_line(settings):
                    print(line)
                yield folder


def check_attention(settings: Settings) -> None:
    """Raise InputError if a run on GPUs needs flash-attn, which is missing. Other attention only gets a warning."""
    if settings.platform != "gpu" or find_spec("flash_attn") is not None:
        return
    key = f"{settings.trainer.model}.override_config.attn_implementation"
    if OmegaConf.select(settings.verl, key) in (None, "flash_attention_2"):  # verl's default
        raise InputError(
            "flash-attn is not installed, and verl computes attention with it: `make env` with this PROFILE builds it. "
            f"To train without it, which is slower, set verl.{key}=sdpa"
        )
    print("warning: flash-attn is missing; without its kernel verl takes log-probabilities of bf16 logits in bf16")


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Let no other run on this machine use vLLM. Raises InputError if one does."""
    if settings.platform == "cpu" or settings.trainer is not PPO:
        yield
        return
    if not ALONE.exists():
        ALONE.touch()
    with open(ALONE, "rb") as lock:  # read only, since the file may be another user's
        hold(lock, f"{ALONE}: another training with vLLM runs on this machine, and the two could mix up their weights")
        yield


def precision_line(settings: Settings) -> str | None:
    """Return a line with the precisions of a CPU run and the measured speed of bfloat16; None if not measured."""
    times = speedup(settings.base_model) if settings.platform == "cpu" else None
    if times is None:
        return None
    chosen = {part: str(OmegaConf.select(settings.verl, key)) for part, key in settings.trainer.precisions.items()}
    parts = [f"{part} in {DTYPE_NAMES.get(dtype, dtype)}" for part, dtype in chosen.items()]
    return f"precision: {', '.join(parts)}; {said(times)}"


def run_verl(
    settings: Settings,
    folder: RunFolder,
    derived: Mapping[str, Any],
    total: int,
    done: int = 0,
    every: int = 1,
) -> int:
    """Run verl once, from the checkpoint of step `done`. Returns 0 if it ended well; otherwise prints why, and 1.

    derived: keys of verl's config that follow from the run. total: the run's last step. every: print one line of
    progress per so many steps. Raises InputError for a checkpoint that could run code (`check_pickles`).
    """
    if done:
        check_pickles(folder.checkpoint(done))
    if line := long_warmup(settings, total):
        print(f"warning: {line}")
    best = settings.export == "best"
    variables = worker_variables(settings, folder.path, folder.next_attempt())
    keys = {**derived, **runtime_env_keys(settings.verl, variables)}
    verl = build(settings.verl, keys, settings.trainer)
    if best:
        folder.keep_best()  # for a killed attempt: start_attempt removes all checkpoints but one
    attempt = folder.start_attempt(verl, after=done)
    program = [word.format(devices=verl.trainer.n_gpus_per_node) for word in settings.trainer.program]
    agreement, lines = Agreement(verl), StepLines(total, every)
    try:
        with ray_folder(folder.path) as ray_tmp:
            env = environment(variables, own_ray=ray_tmp if starts_ray(verl) else None)
            with running_verl(folder, env, program) as (process, watch), lines.console.status("training"):
                for step, data in logged_steps(process, watch, attempt, folder):
                    lines.step(step, data)
                    if warning := agreement.step(step, data):
                        lines.console.print(warning, soft_wrap=True)
                    if best:
                        folder.keep_best()
        fault = f"ended with code {process.returncode}" if process.returncode else None
    except StoodStill as still:  # stop_leftovers waited for verl's end, so the exit code is lost
        fault = str(still)
    folder.merge_metrics()
    if fault is None:
        return 0
    say_why(fault, folder.log)
    return 1


def manifest_of(
    settings: Settings, folder: RunFolder, steps: int, minutes: float, exported: int | None = None
) -> dict[str, Any]:
    """Return the manifest of a finished run, with the identity that it was started with.

    Answers and base model may be others by now. exported: step of the exported model; None if the run has no choice.
    """
    rows = {"train_rows": folder.train_rows, "val_rows": folder.val_rows}
    return {
        **read_json(folder.identity),
        "model": model_sha256(folder.model),
        **{name: file_sha256(path) for name, path in rows.items() if path.exists()},
        "counts": read_json(folder.counts),
        "steps": steps,
        **({} if exported is None else {"exported_step": exported}),
        "attempts": folder.count_attempts(),
        "minutes": round(minutes, 2),
        "base_model": stored(settings.config)["base_model"],
    }


# 0 turns it off. Ray would kill workers when 95% of memory is in use, even by other programs and with free swap space.
MEMORY_MONITOR = "RAY_memory_monitor_refresh_ms"


class StoodStill(Exception):
    """verl was silent for longer than a healthy run is."""


def logged_steps(
    process: subprocess.Popen[bytes], watch: Watch, attempt: Path, folder: RunFolder
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each step and its metrics as soon as they are logged, until the process ends. Raises StoodStill."""
    logged, ended = 0, False
    noted = -NOTE_SECONDS
    while not ended:
        ended = process.poll() is not None  # before reading, so that all steps logged before the end are read
        for step, data in read_attempt(attempt)[logged:]:
            logged += 1
            watch.step(data)
            yield step, data
        if not ended and (silent := watch.silence()):
            raise StoodStill(f"made no progress for {silent:.0f} s and was stopped")
        if time.monotonic() - noted > NOTE_SECONDS:
            note_segments(folder.path)
            noted = time.monotonic()
        if not ended:
            time.sleep(POLL_SECONDS)


def worker_variables(settings: Settings, out_dir: Path, attempt: Path) -> dict[str, str]:
    """Return the environment variables that all processes of a run need on each machine.

    They are written to files, so they must not contain secrets.
    """
    variables = {
        MARK: str(out_dir),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "OMP_NUM_THREADS": str(settings.threads),
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
        "WANDB_DIR": os.environ.get("WANDB_DIR", str(out_dir)),
        "VERL_FILE_LOGGER_PATH": str(attempt),
        "TENSORBOARD_DIR": str(out_dir / "tensorboard"),
    }
    if settings.base_is_local:
        variables["HF_HUB_OFFLINE"] = "1"
    if plugins := PLUGINS.get(settings.platform):
        own = os.environ.get(MODULES, "").split(",")  # the user's modules follow ours, as in PYTHONPATH
        variables |= {"VERL_PLATFORM": "cpu", MODULES: ",".join(dict.fromkeys([*plugins, *filter(None, own)]))}
    if settings.platform == "cpu":
        variables["GLIBC_TUNABLES"] = os.environ.get("GLIBC_TUNABLES", freed_memory.KEEP)
        variables[MEMORY_MONITOR] = os.environ.get(MEMORY_MONITOR, "0")
    return variables


def environment(variables: Mapping[str, str], own_ray: Path | None) -> dict[str, str]:
    """Return the environment of the verl process: the user's variables and those of the run.

    own_ray: folder for the sockets and logs of the run's own ray; None if the run starts no ray. With an own ray,
    RAY_ADDRESS is removed, which would make ray join another cluster.
    """
    env = {**os.environ, **variables, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    env["RAY_prestart_worker_first_driver"] = "0"  # else ray starts an idle worker for each logical CPU
    if own_ray is not None:
        env.pop("RAY_ADDRESS", None)
        env["RAY_TMPDIR"] = str(own_ray)
    return env


@contextmanager
def running_verl(
    folder: RunFolder, env: Mapping[str, str], program: Sequence[str]
) -> Iterator[tuple[subprocess.Popen[bytes], Watch]]:
    """Start `python -m <program>` on the run's verl config, and yield the process and a watch on the run's log.

    The output is appended to the log. At the end all its processes are killed, also those outside its process group.
    """
    command = python_module(*program, f"--config-path={folder.path}", f"--config-name={folder.verl_config.stem}")
    command += [f"hydra.run.dir={folder.path}", "hydra.output_subdir=null"]
    command += ["hydra/job_logging=disabled", "hydra/hydra_logging=disabled"]
    with open(folder.log, "a", encoding="utf-8") as output:
        output.write(f"{ATTEMPT}{env['VERL_FILE_LOGGER_PATH']}\n")
    watch = Watch(folder.log)  # before the start, so that it sees the first output
    with started(command, folder.log, env, cwd=folder.path, append=True) as process:
        try:
            yield process, watch
        finally:
            stop_leftovers(folder.path)


def say_why(fault: str, log: Path) -> None:
    """Print on stderr how verl ended, and the errors in its output."""
    print(f"error: verl {fault}; its output is in {log}", file=sys.stderr)
    for line in last_words(log):
        print(f"  {line}", file=sys.stderr)


def last_words(log: Path, lines: int = 3) -> list[str]:
    """Return up to `lines` errors of the last attempt's output, without ray's prefixes: the first cause and the last.

    verl continues without failed rollouts, and when all have failed it ends with an unrelated error. So the first cause
    is the first error after the last logged step, apart from ray's wrappers. Without errors: the last lines of output.
    """
    text = log.read_text(encoding="utf-8", errors="replace").rpartition(ATTEMPT)[2]  # its first line names the attempt
    output = [bare(line) for line in text.splitlines()[1:]]
    # Hydra repeats the error of a config class as AssertionError('...').
    named = _errors(output)
    last = list(dict.fromkeys(line for _, line in reversed(named)))
    if not last:
        return list(dict.fromkeys(reversed(output[-lines:])))[::-1]
    logged = max((at for at, line in enumerate(output) if STEP.match(line)), default=-1)
    causes = [line for at, line in named if at > logged and not line.startswith(WRAPPER)]
    first = causes[:1] if causes and causes[0] not in last[:lines] else []
    return first + last[: lines - len(first)][::-1]


def _errors(output: Sequence[str]) -> list[tuple[int, str]]:
    """Return (line number, line) of each error. Ray's lines about a dead actor are joined to the error above them."""
    errors: list[tuple[int, str]] = []
    for at, line in enumerate(output):
        if names_error(line):
            errors.append((at, line))
        elif errors and DEATH.match(line):
            place, error = errors.pop()
            errors.append((place, f"{error} {line}"))
    return errors
