from __future__ import annotations

import importlib.metadata

import pytest

from train.verl_rehearsal import distribution


@pytest.fixture(autouse=True)
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl finds vLLM's CPU build, for one test."""
    monkeypatch.setattr(importlib.metadata, "version", distribution.version)
