"""`make train DRY_RUN=1`: verl's real configuration composed and checked, and the plan of the run. Nothing is trained.

Neither model nor answers need to be there, nor a GPU; nothing is written. What is there makes the plan more exact.
"""

from __future__ import annotations

import glob
import io
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.curriculum import Stage, prompt_counter, read_questions
from train.derived_keys import derived_keys
from train.gpu_memory import GIB, Setup, cache_tokens, memory_needs, misfit, read_setup
from train.model_shape import Shape, read_shape
from train.plan import count_steps, describe_steps, plan_disk, plan_rows
from train.run_folder import RunFolder
from train.settings import TrainSettings
from train.verl_config import build, validate

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Rows:
    """The training stages with their numbers of rows, as far as they are known, and the prompts' mean tokens."""

    stages: list[Stage]
    prompt_tokens: float | None
    source: str


def dry_run(settings: TrainSettings) -> int:
    """Print the plan; 0. Raises InputError for a configuration that verl refuses, and, after the plan, for answers
    that are too few and for what cannot fit into `gpu_memory_gib`.
    """
    val_rows = sum(stage.rows or 0 for stage in settings.validation)
    verl = build(settings.verl, derived_keys(settings, RunFolder(settings.out_dir), 0, val_rows))
    unchecked = checked_by_verl(verl)
    problems: list[str] = []
    try:
        rows = read_rows(settings)
    except InputError as error:
        problems.append(str(error))
        rows = Rows(settings.stages, None, "as configured")
    shape, where = read_shape(settings.base_model)
    checked = "every key is one of verl's; its validate_config passes"
    if unchecked:
        checked += f" (not checked: {unchecked})"
    parameters = f"{shape.parameters:,} parameters ({where})" if shape else where
    plan = [("config", checked), ("model", f"{settings.base_model}: {parameters}"), *describe_rows(settings, rows)]
    gpu_gib = settings.gpu_memory_gib
    if settings.platform != "gpu" or gpu_gib is None:
        unplanned = f"platform={settings.platform}, gpu_memory_gib={settings.config.gpu_memory_gib}"
        plan.append(("GPU memory", f"not planned: {unplanned}"))
    elif shape:
        setup = read_setup(verl)
        plan += [*describe_memory(shape, setup, gpu_gib), *describe_hosts(shape, setup, verl, gpu_gib)]
        problems += filter(None, [misfit(shape, setup, gpu_gib)])
    if shape:
        plan += describe_disk(settings, shape, verl, rows)
    print(f"the plan of PROFILE={settings.profile}; nothing is trained")
    for name, text in plan:
        print(f"{name:<12}{text}")
    if problems:
        raise InputError("; ".join(problems))
    return 0


def checked_by_verl(verl: DictConfig) -> str | None:
    """verl's own checks, quietly and without a GPU; what of them was not possible here."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return validate(verl)


def read_rows(settings: TrainSettings) -> Rows:
    """The rows that training would have: built, but not written, if the answers are there.

    Raises InputError if they cannot be had, of these answers or of those that the profile will give.
    """
    if not glob.glob(settings.responses):
        check_answers_to_come(settings)
        return Rows(settings.stages, None, "as configured")
    questions, _ = read_questions(settings.responses, settings.alphas)
    count = prompt_counter(settings.base_model) if settings.base_is_local else None
    lengths: dict[str, int] = {}  # of the prompts, by their last message

    def tokens(messages: list[dict[str, str]]) -> int:
        lengths[messages[-1]["content"]] = length = count(messages) if count else 0
        return length

    curriculum = plan_rows(settings, questions, tokens)
    known = [Stage(c["k"], c["rows"]) for name, c in curriculum.counts.items() if name.startswith("train")]
    if count is None:
        return Rows(known, None, f"of {settings.responses}; their tokens are unknown without the model")
    mean = sum(lengths[row["prompt"][-1]["content"]] for row in curriculum.train) / len(curriculum.train)
    return Rows(known, mean, f"of {settings.responses}")


def check_answers_to_come(settings: TrainSettings) -> None:
    """Raises InputError, with the figures, for rows that the answers of the profile's `make synthesize` cannot give."""
    asked = load_config("synthesize", [f"profile={settings.profile}"])
    source = f"`make synthesize PROFILE={settings.profile}`"
    left = asked.n_questions
    for key, stages in (("validation", settings.validation), ("stages", settings.stages)):
        for at, stage in enumerate(stages):
            if settings.alphas and stage.k > len(settings.alphas):
                raise InputError(f"{key}[{at}]: K={stage.k}, but alphas names {len(settings.alphas)}")
            if stage.k > len(asked.alphas):
                raise InputError(f"{key}[{at}]: K={stage.k}, but {source} gives answers at {len(asked.alphas)} alphas")
            if left is None:  # all that its files hold
                continue
            if left < (stage.rows or 1):
                raise InputError(
                    f"{key}[{at}]: {stage.rows or 'some'} rows with K={stage.k}, but {left} questions: {source} asks "
                    f"{asked.n_questions} (n_questions), and validation takes {asked.n_questions - left}"
                )
            if key == "validation":  # its questions are in no stage; a stage may use all that are left
                left -= stage.rows or left


def describe_rows(settings: TrainSettings, rows: Rows) -> Iterator[tuple[str, str]]:
    """Steps, the switches of K, and the tokens of a step."""
    data, rollout = settings.verl.data, settings.verl.actor_rollout_ref.rollout
    if all(stage.rows for stage in rows.stages):
        yield "steps", f"{describe_steps(settings.verl, rows.stages)} (rows {rows.source})"
    else:
        yield "steps", "not known: rows: null takes all there are, and there are no answers yet"
    rollouts, longest = data.train_batch_size * rollout.n, data.max_prompt_length + data.max_response_length
    at_most = (
        f"{rollouts * longest:,} a step at most: {rollouts} x ({data.max_prompt_length} + {data.max_response_length})"
    )
    yield "tokens", at_most
    if rows.prompt_tokens is not None:
        prompts = f"{rollouts * rows.prompt_tokens:,.0f} in the prompts of a step, {rows.prompt_tokens:,.0f} in each"
        yield "expected", f"{prompts}; the length of replies shows in training only"


def describe_memory(shape: Shape, setup: Setup, gpu_gib: float) -> Iterator[tuple[str, str]]:
    """What each moment of a step needs, and of what parts."""
    sharded = f"weights sharded over {setup.shards}" if setup.shards > 1 else "one copy of the weights on each"
    yield "GPU memory", f"GiB on each GPU of gpu_memory_gib={gpu_gib:g} at most, estimated; {sharded}"
    for moment, parts in memory_needs(shape, setup, gpu_gib).items():
        listed = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)
        yield f"  {moment}", f"{sum(parts.values()) / GIB:.1f}: {listed}"


def describe_hosts(shape: Shape, setup: Setup, verl: DictConfig, gpu_gib: float) -> Iterator[tuple[str, str]]:
    """What vLLM's cache has room for, and what lies in the memory of a node."""
    engine, data = setup.rollout, verl.data
    held, copies = host_memory(shape, setup, verl.trainer.n_gpus_per_node)
    room = cache_tokens(shape, setup, gpu_gib)
    longest = data.max_prompt_length + data.max_response_length
    rows = data.train_batch_size * engine.n * engine.tensor_model_parallel_size / setup.gpus
    yield (
        "KV cache",
        f"{room:,} tokens at most: {min(rows, room / longest):.0f} of a replica's {rows:.0f} rollouts, "
        "each at its longest",
    )
    listed = ", ".join(f"{name} {sized(size)}" for name, size in held.items() if size) or "none of the model"
    loading = f"{copies} x {sized(setup.stored * shape.parameters)} while it is loaded"
    yield "host memory", f"of a node: {listed}; {loading}"


def host_memory(shape: Shape, setup: Setup, per_node: int) -> tuple[dict[str, float], int]:
    """Bytes by part that lie in the memory of a node of so many GPUs, and how often the model is loaded at once."""
    weights = setup.stored * shape.parameters * min(1, per_node / setup.shards)
    held = {
        "the reference model": weights if setup.reference else 0,
        "offloaded weights": weights if setup.offloads("param") else 0,
        "optimizer states": 2 * weights if setup.offloads("optimizer") and not setup.rank else 0,
        "weights, gradients and optimizer states": 4 * weights if setup.fsdp.offload_policy else 0,
        "vLLM's sleeping weights": 2 * shape.parameters * per_node if setup.rank else 0,
    }
    return held, per_node if shape.tied else 1  # with a tied embedding verl loads the model in every process


def describe_disk(settings: TrainSettings, shape: Shape, verl: DictConfig, rows: Rows) -> Iterator[tuple[str, str]]:
    """What a checkpoint holds, and what all that stand at once take beside the exported model."""
    known = all(stage.rows for stage in rows.stages)
    steps = count_steps(settings.verl, sum(stage.rows or 0 for stage in rows.stages)) if known else None
    disk = plan_disk(shape, verl, steps, settings.export)
    place = Path(settings.out_dir).resolve()
    while not place.exists():
        place = place.parent
    yield "checkpoint", ", ".join(f"{name} {sized(size)}" for name, size in disk.contents.items())
    taken = "as many checkpoints as are saved"
    if disk.total is not None:
        taken = f"{sized(disk.total)}: {disk.checkpoints} checkpoints"
    best = f", the best step's weights {sized(disk.best)}" if disk.best else ""
    free = sized(shutil.disk_usage(place).free)
    yield "disk", f"{taken} of {sized(disk.checkpoint)}{best}, the model {sized(disk.export)}; free here {free}"


def sized(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
