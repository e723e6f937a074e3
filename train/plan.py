"""Plan a run from its settings: its steps, disk and memory, and the text of `make train DRY_RUN=1`.

The plan composes and checks verl's real configuration, but trains and writes nothing. It needs no model, answers or
GPU. If model and answers exist, it is more exact. The template is `templates/plan.txt`.
"""

import io
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from rag_zeval.templates import templates
from train.curriculum import build_curriculum, prompt_counter, read_questions
from train.derived_keys import derived_keys
from train.gpu_memory import GIB, Setup, cache_tokens, memory_needs, misfit, number_bytes, read_setup
from train.model_shape import Shape, read_shape, read_window
from train.run_folder import RunFolder
from train.settings import Settings, Stage, TrainSettings, check_base, existing_responses
from train.verl_config import build, validate

TEMPLATES = Path(__file__).parent / "templates"


def count_steps(verl: DictConfig, rows: int) -> int:
    """Return the steps of the whole run. Raises InputError if rows are too few for one, or for those configured."""
    batch, trainer = verl.data.train_batch_size, verl.trainer
    steps = rows // batch * trainer.total_epochs
    wanted = trainer.get("total_training_steps")
    if steps == 0:
        raise InputError(f"{rows} training rows do not fill one step of verl.data.train_batch_size={batch}")
    if wanted and wanted > steps:
        raise InputError(f"verl.trainer.total_training_steps={wanted}: the rows are enough for {steps} steps")
    return wanted or steps


def planned_steps(verl: DictConfig, stages: Sequence[Stage]) -> int | None:
    """Return the steps of the whole run; None if a stage takes all rows that there are. Raises as `count_steps`."""
    rows = [stage.rows for stage in stages if stage.rows]
    return count_steps(verl, sum(rows)) if len(rows) == len(stages) else None


def describe_steps(verl: DictConfig, stages: Sequence[Stage]) -> str:
    """Return `343 steps of 32 prompts x 8 rollouts: K=3 from step 1, K=4 from step 172`.

    The stages must have numbers of rows.
    """
    batch, rollouts, seen, switches = verl.data.train_batch_size, verl.actor_rollout_ref.rollout.n, 0, []
    for at, stage in enumerate(stages):
        if at == 0 or stage.k != stages[at - 1].k:
            switches.append(f"K={stage.k} from step {seen // batch + 1}")
        seen += stage.rows or 0
    return f"{count_steps(verl, seen)} steps of {batch} prompts x {rollouts} rollouts: {', '.join(switches)}"


def long_warmup(settings: Settings, steps: int) -> str | None:
    """Return a line of text if the warm-up of the learning rate is as long as the run or longer, else None."""
    key = f"verl.{settings.trainer.optim}.lr_warmup_steps"
    warmup = OmegaConf.select(settings.config, key) or 0
    if warmup < steps:
        return None
    return f"{key}={warmup}, but the run ends after step {steps}: the full learning rate is never reached"


@dataclass(frozen=True)
class Disk:
    """The bytes that a run needs on disk."""

    contents: dict[str, float]  # parts of one checkpoint
    checkpoints: int | None  # most checkpoints at once; None: all are kept, and their number is not known
    export: float  # the exported model
    best: float = 0.0  # the weights kept of the best step
    keeps_last: bool = True  # whether a finished run keeps its last checkpoint

    @property
    def checkpoint(self) -> float:
        return sum(self.contents.values())

    @property
    def total(self) -> float | None:
        """Most bytes on disk at once; None if that is not known."""
        return None if self.checkpoints is None else self.checkpoint * self.checkpoints + self.best + self.export

    @property
    def kept(self) -> float:
        """Bytes that a finished run keeps."""
        return self.export + (self.checkpoint if self.keeps_last else 0.0)


def plan_disk(shape: Shape, verl: DictConfig, steps: int | None, export: str = "last") -> Disk:
    """Return the disk space of a run: FSDP checkpoints of one of verl's trainers, and the exported model.

    The parts `model` and `hf_model` are the weights in the engine's dtype. With `save_lora_only`, `model` is only the
    adapter. The part `optimizer` is two numbers per trained parameter, in the same dtype. Every rank writes its part of
    `model` and `optimizer`, or all of it if it holds a copy.

    verl removes an old checkpoint before it writes the next. But it does not remove the one from which a resumed run
    started, so there may be one more than `max_actor_ckpt_to_keep`. If `export` is "best", the weights of the best step
    are kept after its checkpoint is removed. steps: of the whole run; None: not known.
    """
    rl = "actor_rollout_ref" in verl
    worker = verl.actor_rollout_ref if rl else verl
    saved, engine = (worker.actor.checkpoint, worker.actor.fsdp_config) if rl else (verl.checkpoint, verl.engine)
    part = "actor_rollout_ref.actor.fsdp_config" if rl else "engine"
    rank, stored = worker.model.lora_rank, number_bytes(f"{part}.model_dtype", engine.model_dtype or "fp32")
    adapter = shape.adapter(rank, worker.model.target_modules) if rank else 0
    numbers = {
        "model": adapter if rank and saved.get("save_lora_only") else shape.parameters + adapter,
        "optimizer": 2 * (adapter or shape.parameters),
        "hf_model": shape.parameters + adapter,
    }
    keep, every = verl.trainer["max_actor_ckpt_to_keep" if rl else "max_ckpt_to_keep"], verl.trainer.save_freq
    ever = (-(-steps // every) if every > 0 else 1) if steps else None  # the last step is always saved
    ranks = verl.trainer.n_gpus_per_node * verl.trainer.nnodes
    copies = 1 if engine.fsdp_size < 0 else max(1, ranks // engine.fsdp_size)
    contents = {
        name: float(stored * count * (1 if name == "hf_model" else copies))
        for name, count in numbers.items()
        if name in saved.save_contents
    }
    return Disk(
        contents,
        min(keep + 1, ever or keep + 1) if keep else ever,
        float((4 if rank else stored) * shape.parameters),  # a merged adapter is exported in fp32
        contents["model" if rank else "hf_model"] if export == "best" and keep else 0.0,
        keeps_last=rl,
    )


class PlannedRows(NamedTuple):
    """The training stages with their numbers of rows, if known, and the mean tokens of a prompt (None: not known)."""

    stages: list[Stage]
    prompt_tokens: float | None
    source: str


def print_plan(settings: TrainSettings) -> int:
    """Print the plan and return 0.

    Raises InputError if verl refuses the configuration. After printing it raises InputError if the answers are too few,
    or if the run cannot fit into `gpu_memory_gib`.
    """
    val_rows = sum(stage.rows or 0 for stage in settings.validation)
    verl = build(settings.verl, derived_keys(settings, RunFolder(settings.out_dir), 0, val_rows))
    unchecked = checked_by_verl(verl)
    problems: list[str] = []
    try:
        rows = read_rows(settings)
    except InputError as error:
        problems.append(str(error))
        rows = PlannedRows(settings.stages, None, "as configured")
    problems += filter(None, [narrow_window(settings)])
    steps = planned_steps(settings.verl, rows.stages)
    shape, where = read_shape(settings.base_model)
    gpu_gib = settings.gpu_memory_gib if settings.platform == "gpu" else None
    values: dict[str, Any] = {
        "settings": settings,
        "unchecked": unchecked,
        "not_here": not_here(settings),
        "shape": shape,
        "where": where,
        "rows": rows,
        "steps": steps and describe_steps(settings.verl, rows.stages),
        "warmup": steps and long_warmup(settings, steps),
        "data": verl.data,
        "rollouts": verl.data.train_batch_size * verl.actor_rollout_ref.rollout.n,
        "longest": verl.data.max_prompt_length + verl.data.max_response_length,
        "gpu_gib": gpu_gib,
    }
    if shape and gpu_gib is not None:
        setup = read_setup(verl)
        values |= plan_memory(shape, setup, verl, gpu_gib)
        problems += filter(None, [misfit(shape, setup, gpu_gib)])
    if shape:
        disk = plan_disk(shape, verl, steps, settings.export)
        lack = disk.total and lack_of_disk(disk.total, settings.out_dir, [Path(settings.out_dir)])
        values |= {"disk": disk, "free": free_bytes(settings.out_dir), "lack": lack}
    print(render(values), end="")
    if problems:
        raise InputError("; ".join(problems))
    return 0


def render(values: Mapping[str, Any]) -> str:
    """Return the text of the plan."""

    def gib(size: float) -> str:
        return f"{size / GIB:.1f}"

    def sizes(parts: Mapping[str, float], shown: Callable[[float], str]) -> str:
        return ", ".join(f"{name} {shown(size)}" for name, size in parts.items() if size)

    layout = templates(TEMPLATES, filters={"gib": gib, "sized": sized, "sizes": sizes}, trim_blocks=True)
    return layout.get_template("plan.txt").render(values, gib=gib, sized=sized)


def checked_by_verl(verl: DictConfig) -> str | None:
    """Run verl's own checks, without output and GPU, and return which check was not possible here (None: all were)."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return validate(verl)


def read_rows(settings: TrainSettings) -> PlannedRows:
    """Return the rows that training would have. If the answers exist, the rows are built, but not written.

    Raises InputError if the answers are not enough. Without answers: if those that the profile will give are not.
    """
    if not existing_responses(settings.responses):
        check_answers_to_come(settings)
        return PlannedRows(settings.stages, None, "as configured")
    questions, _ = read_questions(settings.responses, settings.alphas, settings.half)
    count = prompt_counter(settings.base_model) if settings.base_is_local else lambda messages: 0
    curriculum = build_curriculum(settings, questions, count)
    known = [Stage(c["k"], c["rows"]) for name, c in curriculum.counts.items() if name.startswith("train")]
    if not settings.base_is_local:
        return PlannedRows(known, None, f"of {settings.responses}; their tokens are unknown without the model")
    tokens = sum(count(row["prompt"]) for row in curriculum.train)
    return PlannedRows(known, tokens / len(curriculum.train), f"of {settings.responses}")


def narrow_window(settings: TrainSettings) -> str | None:
    """Return a line of text if the base model's window is too narrow for the rows, else None.

    verl itself refuses it only after it has loaded the model onto all devices.
    """
    verl, window = settings.verl, read_window(settings.base_model)
    longest = verl.data.max_prompt_length + verl.data.max_response_length
    needed = verl.actor_rollout_ref.rollout.max_model_len or longest
    if window is None or needed <= window:
        return None
    return (
        f"base_model={settings.base_model}: its config.json has max_position_embeddings={window}, but {needed} tokens "
        "are needed: lower verl.data.max_prompt_length, verl.data.max_response_length and "
        "verl.actor_rollout_ref.rollout.max_model_len"
    )


def not_here(settings: TrainSettings) -> list[str]:
    """Return what `make train` needs and this machine lacks, a line of text each: the base model, the answers."""
    lacking = []
    try:
        check_base(settings.base_model)
    except InputError as error:
        lacking.append(str(error))
    if not existing_responses(settings.responses):
        lacking.append(f"responses={settings.responses}: there is no such file")
    return lacking


def check_answers_to_come(settings: TrainSettings) -> None:
    """Raise InputError, with the numbers, if the answers of the profile's `make synthesize` would give too few rows."""
    asked = load_config("synthesize", [f"profile={settings.profile}"])
    source = f"`make synthesize PROFILE={settings.profile}`"
    left = asked.n_questions
    for key, stages in (("validation", settings.validation), ("stages", settings.stages)):
        for at, stage in enumerate(stages):
            if settings.alphas and stage.k > len(settings.alphas):
                raise InputError(f"{key}[{at}]: K={stage.k}, but alphas names {len(settings.alphas)}")
            if stage.k > len(asked.alphas):
                raise InputError(f"{key}[{at}]: K={stage.k}, but {source} gives answers at {len(asked.alphas)} alphas")
            if left is None:  # all questions of its files, whose number is not known
                continue
            if left < (stage.rows or 1):
                raise InputError(
                    f"{key}[{at}]: {stage.rows or 'some'} rows with K={stage.k}, but {left} questions: {source} asks "
                    f"{asked.n_questions} (n_questions), and validation takes {asked.n_questions - left}"
                )
            if key == "validation":  # training uses none of its questions; each stage may use all that are left
                left -= stage.rows or left


def plan_memory(shape: Shape, setup: Setup, verl: DictConfig, gpu_gib: float) -> dict[str, Any]:
    """Return the plan's values about memory: of each moment of a step, of vLLM's cache, and of a node's host memory."""
    engine = setup.rollout
    held, copies = host_memory(shape, setup, verl.trainer.n_gpus_per_node)
    return {
        "setup": setup,
        "moments": memory_needs(shape, setup, gpu_gib),
        "room": cache_tokens(shape, setup, gpu_gib),
        "replica_rows": verl.data.train_batch_size * engine.n * engine.tensor_model_parallel_size / setup.gpus,
        "held": held,
        "copies": copies,
        "loaded": setup.stored * shape.parameters,
    }


def host_memory(shape: Shape, setup: Setup, per_node: int) -> tuple[dict[str, float], int]:
    """Return the bytes in a node's host memory, by part, and how many copies of the model are loaded at once.

    per_node: GPUs of a node.
    """
    weights = setup.stored * shape.parameters * min(1, per_node / setup.shards)
    held = {
        "the reference model": weights if setup.reference else 0,
        "offloaded weights": weights if setup.offloads("param") else 0,
        "optimizer states": 2 * weights if setup.offloads("optimizer") and not setup.rank else 0,
        "weights, gradients and optimizer states": 4 * weights if setup.fsdp.offload_policy else 0,
        "vLLM's sleeping weights": 2 * shape.parameters * per_node if setup.rank else 0,
    }
    return held, per_node if shape.tied else 1  # with tied embeddings every process of verl loads the model


def standing(folder: str) -> Path:
    """Return the folder itself, or its nearest parent that exists."""
    place = Path(folder).resolve()
    return next(each for each in (place, *place.parents) if each.exists())


def free_bytes(folder: str) -> int:
    """Return the free bytes on the disk of a folder that may not exist yet."""
    return shutil.disk_usage(standing(folder)).free


def lack_of_disk(needed: float, folder: str, parts: Sequence[Path]) -> str | None:
    """Return a line of text if the disk of a folder has no room for so many bytes, else None.

    The bytes of existing files in `parts` count as free, because they are part of what is needed.
    """
    there = sum(path.stat().st_size for part in parts for path in part.rglob("*") if path.is_file())
    free = free_bytes(folder)
    if needed <= there + free:
        return None
    return f"disk: {folder} needs up to {sized(needed)} and holds {sized(there)}, but only {sized(free)} are free"


def check_disk(settings: Settings, steps: int) -> None:
    """Raise InputError if a run's checkpoints and model will not fit onto the disk of `out_dir`."""
    shape, _ = read_shape(settings.base_model)
    verl = build(settings.verl, {}, settings.trainer)
    needed = plan_disk(shape, verl, steps, settings.export).total if shape else None
    if needed and (problem := lack_of_disk(needed, settings.out_dir, [Path(settings.out_dir)])):
        raise InputError(f"{problem}; set another out_dir")


def sized(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
