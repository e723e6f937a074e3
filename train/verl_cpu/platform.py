"""The CPU as an accelerator of verl's platform layer (verl/plugin/platform)."""

from __future__ import annotations

import os
import resource
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import verl.utils.distributed as verl_distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry

from train.verl_cpu.memory import empty_cache

DEVICE_MODULE = "train.verl_cpu.device"


def _device_module() -> types.ModuleType:
    """What verl expects of `torch.<device>`: torch.cpu lacks the calls for memory, caches and random state."""
    module: Any = types.ModuleType(DEVICE_MODULE)
    for name in (
        "synchronize",
        "set_device",
        "ipc_collect",
        "init",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "set_per_process_memory_fraction",
    ):
        setattr(module, name, lambda *args, **kwargs: None)
    for name in ("max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, lambda *args: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    for name in ("memory_allocated", "memory_reserved"):
        setattr(module, name, lambda *args: 0)
    module.empty_cache = empty_cache  # verl calls it around weight updates
    module.mem_get_info = lambda *args: (0, 0)
    module.is_available = lambda: False
    module.is_initialized = lambda: True
    module.is_bf16_supported = lambda *args: True
    module.device_count = lambda: 1
    module.current_device = lambda: torch.device("cpu")
    module.get_device_name = lambda *args: "CPU"
    module.manual_seed = module.manual_seed_all = torch.manual_seed
    module.get_rng_state = lambda *args: torch.get_rng_state()
    module.set_rng_state = lambda state, *args: torch.set_rng_state(state)
    module.Stream, module.Event = torch.cpu.Stream, torch.Event
    module.current_stream, module.stream = torch.cpu.current_stream, torch.cpu.stream
    return module


sys.modules[DEVICE_MODULE] = _device_module()


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """One logical device. It is only ever chosen by name: on a machine with a GPU verl must not find this one."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = sys.modules[DEVICE_MODULE]

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> str:  # verl passes it on as a torch device
        return "cpu"

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        """verl schedules a worker on a ray "GPU" or "NPU" only: so a CPU worker takes a logical one (num_gpus=1)."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        """What a CPU has no use for: there is nothing to choose, to wait for or to profile."""

    empty_cache = staticmethod(empty_cache)
    set_device = synchronize = set_allocator_settings = _nothing
    profiler_start = profiler_stop = cudart = _nothing


# verl builds the backend string "cpu:gloo,{device}:{backend}", which torch refuses when the device is "cpu" too.
_init_process_group_ray = verl_distributed.initialize_global_process_group_ray


def _process_group_ray(timeout_second: int | None = None, backend: str | None = None) -> None:
    _init_process_group_ray(timeout_second, backend or "cpu:gloo")


def _process_group(timeout_second: int = 36000) -> tuple[int, int, int]:
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=timeout_second))
    return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


verl_distributed.initialize_global_process_group_ray = _process_group_ray
verl_distributed.initialize_global_process_group = _process_group
