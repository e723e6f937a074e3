"""`make train DRY_RUN=1`: verl's real configuration composed and checked, and the plan of the run. Nothing is trained.

Neither model nor answers need to be there, nor a GPU; nothing is written. What is there makes the plan more exact. Its
text is `templates/plan.txt`.
"""

from __future__ import annotations

import glob
import io
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.curriculum import build_curriculum, prompt_counter, read_questions
from train.derived_keys import derived_keys
from train.gpu_memory import GIB, Setup, cache_tokens, memory_needs, misfit, read_setup
from train.model_shape import Shape, read_shape
from train.plan import count_steps, describe_steps, plan_disk
from train.run_folder import RunFolder
from train.settings import Stage, TrainSettings
from train.verl_config import build, validate

TEMPLATE = Path(__file__).parent / "templates" / "plan.txt"


class PlannedRows(NamedTuple):
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
    values: dict[str, Any] = {"settings": settings, "data": verl.data, "unchecked": checked_by_verl(verl)}
    problems: list[str] = []
    try:
        rows = read_rows(settings)
    except InputError as error:
        problems.append(str(error))
        rows = PlannedRows(settings.stages, None, "as configured")
    shape, where = read_shape(settings.base_model)
    all_known = all(stage.rows for stage in rows.stages)
    values |= {"rows": rows, "all_known": all_known, "shape": shape, "where": where}
    values["steps"] = describe_steps(settings.verl, rows.stages) if all_known else None
    values["rollouts"] = settings.verl.data.train_batch_size * settings.verl.actor_rollout_ref.rollout.n
    values["longest"] = verl.data.max_prompt_length + verl.data.max_response_length
    gpu_gib = settings.gpu_memory_gib
    values["on_gpus"] = settings.platform == "gpu" and gpu_gib is not None
    if shape and settings.platform == "gpu" and gpu_gib is not None:
        setup = read_setup(verl)
        values |= plan_memory(shape, setup, verl, gpu_gib)
        problems += filter(None, [misfit(shape, setup, gpu_gib)])
    if shape:
        steps = count_steps(settings.verl, sum(stage.rows or 0 for stage in rows.stages)) if all_known else None
        values["disk"], values["free"] = plan_disk(shape, verl, steps, settings.export), free_bytes(settings.out_dir)
    print(render(values), end="")
    if problems:
        raise InputError("; ".join(problems))
    return 0


def render(values: Mapping[str, Any]) -> str:
    """The text of the plan."""
    from jinja2 import Environment, StrictUndefined

    def gib(size: float) -> str:
        return f"{size / GIB:.1f}"

    def sizes(parts: Mapping[str, float], shown: Callable[[float], str]) -> str:
        return ", ".join(f"{name} {shown(size)}" for name, size in parts.items() if size)

    environment = Environment(undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"gib": gib, "sized": sized, "sizes": sizes}
    environment.globals |= {"gib": gib, "sized": sized}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)


def checked_by_verl(verl: DictConfig) -> str | None:
    """verl's own checks, quietly and without a GPU; what of them was not possible here."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return validate(verl)


def read_rows(settings: TrainSettings) -> PlannedRows:
    """The rows that training would have: built, but not written, if the answers are there.

    Raises InputError if they cannot be had, of these answers or of those that the profile will give.
    """
    if not glob.glob(settings.responses):
        check_answers_to_come(settings)
        return PlannedRows(settings.stages, None, "as configured")
    questions, _ = read_questions(settings.responses, settings.alphas)
    count = prompt_counter(settings.base_model) if settings.base_is_local else lambda messages: 0
    curriculum = build_curriculum(settings, questions, count)
    known = [Stage(c["k"], c["rows"]) for name, c in curriculum.counts.items() if name.startswith("train")]
    if not settings.base_is_local:
        return PlannedRows(known, None, f"of {settings.responses}; their tokens are unknown without the model")
    tokens = sum(count(row["prompt"]) for row in curriculum.train)
    return PlannedRows(known, tokens / len(curriculum.train), f"of {settings.responses}")


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


def plan_memory(shape: Shape, setup: Setup, verl: DictConfig, gpu_gib: float) -> dict[str, Any]:
    """What each moment of a step needs, what vLLM's cache has room for, and what lies in the memory of a node."""
    engine = setup.rollout
    held, copies = host_memory(shape, setup, verl.trainer.n_gpus_per_node)
    return {
        "gpu_gib": gpu_gib,
        "setup": setup,
        "moments": memory_needs(shape, setup, gpu_gib),
        "room": cache_tokens(shape, setup, gpu_gib),
        "replica_rows": verl.data.train_batch_size * engine.n * engine.tensor_model_parallel_size / setup.gpus,
        "held": held,
        "copies": copies,
        "loaded": setup.stored * shape.parameters,
    }


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


def free_bytes(folder: str) -> int:
    """Free on the disk of a folder that may not be there yet."""
    place = Path(folder).resolve()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def sized(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
