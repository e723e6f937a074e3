"""Fuzzed replies, in short: `make hostile` reads a million."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from fuzzed_replies import KINDS, NO_EVALUATION, case, check, outcome, read_honest
from honest_replies import WHOLE
from long_replies import LINEAR, LONG, read

ROOT = Path(__file__).parents[2]
REPLIES = 6_000


def test_no_score_is_made_up() -> None:
    found, faults = check(seed=1, numbers=range(REPLIES))
    assert not faults, "\n".join(faults[:5])
    assert {kind for kind, _ in found} == {*KINDS, "injected"}
    for kind in NO_EVALUATION:
        assert found[kind, "not read"] > 100
    for kind in ("injected", "edited"):  # both happen: an oracle that never saw a score could not miss one
        assert found[kind, "read"] > 20 and found[kind, "not read"] > 20


def test_whole_replies_are_read_whatever_is_around_them() -> None:
    assert read_honest(20).counts == {"not read": 0, **dict.fromkeys(WHOLE, 20)}


def test_the_oracle_sees_a_score_that_was_not_meant() -> None:
    one = next(made for number in range(1, 999) if (made := case(0, number)).kind == "plain")
    other = json.loads(one.reply)
    other[0]["atomic_claims"][0]["is_supported"] ^= True
    assert outcome(one)[0] == "read" and outcome(replace(one, reply=json.dumps(other)))[0] == "invented"


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("kind", LONG)
def test_a_long_reply_takes_linear_time(kind: str, repeated: bool, growth: Callable[..., float]) -> None:
    assert growth(partial(read, kind, repeated), 50_000) < LINEAR


def test_a_call_that_takes_quadratic_time_is_seen(growth: Callable[..., float]) -> None:
    assert growth(lambda n: sum(range(n * n)), 700) > LINEAR


def test_make_hostile_finds_its_modules() -> None:
    """Its parts are scripts, and see none of the folders that pytest adds."""
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "campaign.py" in line)
    path, _, *script = line.replace("$(ARGS)", "--help").split()
    done = subprocess.run([sys.executable, *script], cwd=ROOT, env={**os.environ, **dict([path.split("=")])})
    assert done.returncode == 0
