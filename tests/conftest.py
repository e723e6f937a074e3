"""For all tests: hypothesis without deadlines (a busy machine is no bug) and alike in CI; a judge without a model."""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hostile_server import HostileServer
from hypothesis import settings

from eval_benchmarks.scripted_judge import ScriptedJudge

settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("steady")


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers on this machine are reached whatever proxy the machine uses."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def scripted_judge(no_proxy: None) -> Iterator[ScriptedJudge]:
    """A server on this machine that keeps the protocol."""
    judge = ScriptedJudge()
    yield judge
    judge.close()


@pytest.fixture
def hostile(no_proxy: None) -> Iterator[HostileServer]:
    """A server on this machine that breaks it; its right reply has one claim, for one answer."""
    claim = {"claim": "It is so.", "is_supported": True, "grounding_evidence": ["It is so."], "analysis": "Clear."}
    server = HostileServer(lambda body: json.dumps([{"id": "A", "answer": "a", "atomic_claims": [claim]}]))
    yield server
    server.close()


@pytest.fixture
def growth() -> Callable[[Callable[[int], Any], int], float]:
    """How many times as long a call takes with 4 n as with n: about 4 where time is linear, 16 where it is quadratic.

    CPU time, the least of three, so that a busy machine is no bug; what takes under 5 ms counts as 5 ms.
    """

    def measure(call: Callable[[int], Any], n: int) -> float:
        def seconds(size: int) -> float:
            taken = []
            for _ in range(3):
                started = time.process_time()
                call(size)
                taken.append(time.process_time() - started)
            return max(min(taken), 0.005)

        return seconds(4 * n) / seconds(n)

    return measure
