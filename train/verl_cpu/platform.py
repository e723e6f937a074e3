"""The CPU as an accelerator of verl's platform layer (verl/plugin/platform).

verl needs two things from an accelerator: a module like `torch.cuda` (`DEVICE` here), and a `PlatformBase`. Both are
designed for GPUs. A CPU has no separate memory, no streams to wait for and no profiler, so most functions do nothing.
"""

import contextlib
import os
import resource
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import verl.utils.distributed as verl_distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry

from train.freed_memory import give_back


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing: a CPU has no device to choose, no stream to wait for and no statistics to reset."""


def peak_bytes(*_: object) -> int:
    """Return the peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# The functions that verl expects in `torch.<device>`. torch.cpu lacks those for memory, caches and random state.
DEVICE: Any = SimpleNamespace(
    **dict.fromkeys(("init", "set_device", "synchronize", "ipc_collect", "set_per_process_memory_fraction"), nothing),
    **dict.fromkeys(("reset_peak_memory_stats", "reset_accumulated_memory_stats"), nothing),
    **dict.fromkeys(("max_memory_allocated", "max_memory_reserved"), peak_bytes),
    **dict.fromkeys(("memory_allocated", "memory_reserved"), lambda *_: 0),
    mem_get_info=lambda *_: (0, 0),
    empty_cache=give_back,
    is_available=lambda: False,
    is_initialized=lambda: True,
    is_bf16_supported=lambda *_: True,
    device_count=lambda: 1,
    current_device=lambda: torch.device("cpu"),
    get_device_name=lambda *_: "CPU",
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    get_rng_state=lambda *_: torch.get_rng_state(),
    set_rng_state=lambda state, *_: torch.set_rng_state(state),
    Stream=torch.cpu.Stream,
    Event=torch.Event,
    current_stream=torch.cpu.current_stream,
    stream=torch.cpu.stream,
)


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """One logical device. It is chosen only by name, because verl must not find it on a machine with a GPU."""

    device_name = vendor_name = "cpu"
    device_module = DEVICE
    empty_cache = staticmethod(give_back)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = set_allocator_settings = staticmethod(nothing)
    profiler_start = profiler_stop = cudart = staticmethod(nothing)

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> str:  # verl uses it as a torch device
        return "cpu"

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        """Return "GPU": verl schedules workers only on a ray "GPU" or "NPU", so a CPU worker takes a logical GPU."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def nvtx_range(self, msg: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


# verl builds the backend string "cpu:gloo,{device}:{backend}", which torch refuses if the device is "cpu" too.
_init_process_group_ray = verl_distributed.initialize_global_process_group_ray


def _process_group_ray(timeout_second: int | None = None, backend: str | None = None) -> None:
    _init_process_group_ray(timeout_second, backend or "cpu:gloo")


def _process_group(timeout_second: int = 36000) -> tuple[int, int, int]:
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=timeout_second))
    return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


verl_distributed.initialize_global_process_group_ray = _process_group_ray
verl_distributed.initialize_global_process_group = _process_group
