"""Compares our scorers with what a recorder left: the same decisions, in our reply format."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from judge_by_prompt import JudgeByPrompt

from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Score

Instance = Mapping[str, Any]
ENOUGH = 20  # instances that a measure is compared on
NEWER = " (collections)"


class Difference(NamedTuple):
    """A listed fault of the original: its score and ours on an instance; where we give none, a part of the reason."""

    fault: str
    theirs: float
    ours: float | None
    why: str = ""


def differences_of(
    measure: str, faults: Mapping[str, Mapping[str, Mapping[str, tuple[float, float | None]]]], why: Mapping[str, str]
) -> dict[str, Difference]:
    """A measure's differences by instance. faults: the two scores, by fault, measure and instance; why: by fault."""
    return {
        id_: Difference(fault, theirs, ours, why[fault] if ours is None else "")
        for fault, by_measure in faults.items()
        for id_, (theirs, ours) in by_measure.get(measure, {}).items()
    }


class Recorded:
    """A recorder's file. `replies(instance)` is our judge's script: by prompt, what it says of the inputs."""

    def __init__(self, package: str, replies: Callable[[Instance], Mapping[str, Any]]):
        recorded = json.loads((Path(__file__).parent / f"{package}.json").read_text())
        self.instances, self.scores = recorded["instances"], recorded["scores"]
        self._replies = replies

    def score(self, measure: str, instance: Instance) -> Score:
        """What our scorer gives; where an instance has no ground truth, the reference is not looked at."""
        texts = instance["question"], instance.get("truth", "-"), (instance["answer"],), instance.get("truth")
        example = Example(instance["id"], *texts, chunks=tuple(instance["chunks"]))
        vector_of = instance["decisions"].get("vectors", {}).get
        (score,) = JudgeByPrompt(self._replies(instance)).score(measure, example, vector_of).scores
        return score

    def of_kinds(self, kinds: Mapping[str, tuple[str, Callable[[Instance], float], str]]) -> dict[str, Difference]:
        """Differences by instance, from those of its kind: the fault, the original's score, and why we give none."""
        assert set(kinds) <= {instance["kind"] for instance in self.instances}
        differences = {}
        for instance in self.instances:
            if instance["kind"] in kinds:
                fault, theirs, why = kinds[instance["kind"]]
                differences[instance["id"]] = Difference(fault, theirs(instance), None, why)
        return differences

    def compare(self, recorded: str, differences: Mapping[str, Difference]) -> None:
        """Each instance has the original's score (both may have none), but for those with a difference: then both.

        recorded: our measure's name, for a second implementation in the same package with `NEWER` after it.
        """
        alike = []
        for instance in self.instances:
            id_ = instance["id"]
            theirs, ours = self.scores[recorded][id_], self.score(recorded.removesuffix(NEWER), instance)
            if difference := differences.get(id_):
                assert theirs == pytest.approx(difference.theirs, abs=1e-6), (id_, difference)
                assert ours.value == pytest.approx(difference.ours, abs=1e-6), (id_, difference, ours)
                assert ours.value != pytest.approx(theirs, abs=1e-6), (id_, difference)
                assert difference.why in ours.status, (id_, difference, ours)
            else:
                assert ours.value == pytest.approx(theirs, abs=1e-6), (id_, instance["kind"], ours)
                alike += [theirs] if theirs is not None else []
        assert set(differences) <= {instance["id"] for instance in self.instances}
        assert len(alike) >= ENOUGH and len(set(alike)) > (1 if set(alike) <= {0, 1} else 3)
