"""Replays what a recorder left: the same decisions, in our reply format, through our scorers."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from rag_zeval.judge.evaluator import Example
from rag_zeval.models.embeddings import Embedding
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.asking_scorer import AskingScorer
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Score

Instance = Mapping[str, Any]
ENOUGH = 20  # instances that a measure is compared on
NEWER = " (collections)"


class Difference(NamedTuple):
    """A listed fault of the original: its name, the score that it gives there, and why we give none."""

    fault: str
    theirs: Callable[[Instance], float]
    ours: str


class Recorded:
    """A recorder's file. `replies(instance)` is our judge's script: by prompt, what it says of the inputs."""

    def __init__(self, name: str, judge: type, replies: Callable[[Instance], Mapping[str, Any]]):
        found = json.loads((Path(__file__).parent / f"{name}.json").read_text())
        self.instances, self.scores = found["instances"], found["scores"]
        self._judge, self._replies = judge, replies

    def score(self, measure: str, instance: Instance) -> Score:
        """What our scorer gives."""
        example = Example(
            instance["id"],
            instance["question"],
            instance["truth"],
            (instance["answer"],),
            instance["truth"],
            tuple(instance["chunks"]),
        )
        judge, vectors = self._judge(self._replies(instance)), _Vectors(instance["decisions"]["vectors"])
        (scored,) = AskingScorer(MEASURES[measure], judge, Sampling(), vectors).score([example])
        (score,) = scored.scores
        return score

    def compare(self, recorded: str, differences: Mapping[str, Difference]) -> None:
        """Each instance has the original's score (both may have none), but for kinds with a difference: then both.

        recorded: our measure's name, for a second implementation in the same package with `NEWER` after it.
        """
        alike = 0
        for instance in self.instances:
            theirs, ours = self.scores[recorded][instance["id"]], self.score(recorded.removesuffix(NEWER), instance)
            if difference := differences.get(instance["kind"]):
                assert theirs == pytest.approx(difference.theirs(instance), abs=1e-6), (instance["id"], difference)
                assert ours.value is None and difference.ours in ours.status, (instance["id"], difference)
            else:
                assert ours.value == pytest.approx(theirs, abs=1e-6), (instance["id"], instance["kind"], ours)
                alike += theirs is not None
        assert alike >= ENOUGH
        assert len(set(self.scores[recorded].values())) > 3
        assert set(differences) <= {instance["kind"] for instance in self.instances}


class _Vectors:
    name = identity = "recorded"
    at_once = 1

    def __init__(self, vectors: Mapping[str, Sequence[float]]):
        self._vectors = vectors

    async def embed(self, text: str) -> Embedding:
        return Embedding(tuple(self._vectors[text]), "ok")


@pytest.fixture
def recorded(judge_by_prompt: Any) -> Callable[[str, Any], Recorded]:
    """Reads a recorder's file by the package's name."""
    return lambda name, replies: Recorded(name, judge_by_prompt, replies)


@pytest.fixture
def difference() -> type[Difference]:
    return Difference


@pytest.fixture
def made() -> ModuleType:
    """The module that made the instances: recorders import it by its folder, which is no package."""
    spec = importlib.util.spec_from_file_location("parity_instances", Path(__file__).parent / "instances.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Faults = Mapping[str, Mapping[str, Mapping[str, tuple[float, float | None]]]]


@pytest.fixture
def compare_listed() -> Callable[..., None]:
    """Compares scores with a recorder's file, where faults are listed by the instance.

    faults: by name and measure, of an instance the original's score and ours; why: by the fault's name, a part of the
    reason where ours is None.
    """

    def compare(
        name: str, measure: str, score: Callable[[str, Instance], Score], faults: Faults, why: Mapping[str, str]
    ) -> None:
        found = json.loads((Path(__file__).parent / f"{name}.json").read_text())
        listed = {id_: (fault, *pair) for fault, of in faults.items() for id_, pair in of.get(measure, {}).items()}
        alike = []
        for instance in found["instances"]:
            theirs, ours = found["scores"][measure][instance["id"]], score(measure, instance)
            if instance["id"] in listed:
                fault, their_value, our_value = listed.pop(instance["id"])
                assert theirs == pytest.approx(their_value, abs=1e-6), (instance["id"], fault)
                assert ours.value == pytest.approx(our_value, abs=1e-6), (instance["id"], fault, ours)
                assert ours.value != pytest.approx(theirs, abs=1e-6), (instance["id"], fault)
                assert our_value is not None or why[fault] in ours.status, (instance["id"], fault, ours)
            else:
                assert ours.value == pytest.approx(theirs, abs=1e-6), (instance["id"], instance["kind"], ours)
                alike += [theirs] if theirs is not None else []
        assert not listed and len(alike) >= ENOUGH and len(set(alike)) > 1

    return compare
