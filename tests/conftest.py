"""For all tests: hypothesis without deadlines (a busy machine is no bug) and alike in CI; a judge without a model."""

import json
import os
from collections.abc import Iterator

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
