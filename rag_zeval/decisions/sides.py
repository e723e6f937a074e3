"""What is compared: the judged answers of one system in a result file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag_zeval.cases.case import edited, golden_hashes, set_version
from rag_zeval.cases.reading import question_id
from rag_zeval.errors import InputError
from rag_zeval.results import Judged, read_judged
from rag_zeval.text import one_line


@dataclass(frozen=True)
class Side:
    """One system's judged answers by metric and case.

    name: the FILE or FILE#SYSTEM that the user gave. version: of the set of questions that it answered, None for files
    of earlier versions, which do not keep what it needs. edited: the cases that are left out, because their texts are
    not the same on all sides, each with the fields that differ.
    """

    name: str
    judged: Mapping[str, Mapping[str, Judged]]
    version: str | None = None
    edited: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def cases(self) -> dict[str, Judged]:
        """An answer of each case, by whatever metric."""
        return {case: one for by_case in self.judged.values() for case, one in by_case.items()}

    def without(self, edits: Mapping[str, Sequence[str]]) -> Side:
        """The same answers but those of the cases that were edited."""
        kept = {
            metric: {case: one for case, one in by_case.items() if case not in edits}
            for metric, by_case in self.judged.items()
        }
        return replace(self, judged=kept, edited=edits)

    def by_question(self) -> Side:
        """The same answers, their cases known by their questions, equal ones by their order."""
        judged: dict[str, dict[str, Judged]] = {}
        for metric, by_case in self.judged.items():
            seen: Counter[str] = Counter()
            for one in by_case.values():
                id_ = question_id(one.question)
                seen[id_] += 1
                judged.setdefault(metric, {})[f"{id_}#{seen[id_]}"] = one
        return replace(self, judged=judged)


def read_sides(specs: Sequence[str]) -> list[Side]:
    """The sides that `FILE` or `FILE#SYSTEM` name, `paired`. Raises InputError, as `read_side` and `paired`."""
    return paired([read_side(spec) for spec in specs])


def paired(sides: Sequence[Side]) -> list[Side]:
    """The same sides with cases that pair: by id, or by question where no id is shared.

    A case that was edited between them (its question, ground truth or gold chunks) is left out of all sides. Raises
    InputError where sides share no case that is the same.
    """
    by_id = all(sides[0].cases.keys() & side.cases.keys() for side in sides)
    if not by_id:
        sides = [side.by_question() for side in sides]
    edits: dict[str, list[str]] = {}
    for other in sides[1:]:
        for case, fields in edits_between(sides[0], other).items():
            edits[case] = list(dict.fromkeys([*edits.get(case, ()), *fields]))
    if not by_id:
        print("note: the files share no id, so cases are paired by their questions", file=sys.stderr)
    return [side.without(edits) for side in sides] if edits else [*sides]


def file_and_system(spec: str) -> tuple[Path, str]:
    """What `FILE` or `FILE#SYSTEM` names, the system "" if none is named; a file may have the mark in its name."""
    path, mark, system = spec.rpartition("#")
    return (Path(path), system) if mark and not Path(spec).exists() else (Path(spec), "")


def read_side(spec: str) -> Side:
    """The side that `FILE` or `FILE#SYSTEM` names.

    Raises InputError, naming the systems, if a file holds several and none is named, or not the one that is.
    """
    path, system = file_and_system(spec)
    rows = read_judged(path)
    systems = list(dict.fromkeys(row.system for row in rows))
    if system and system not in systems:
        raise InputError(f"{path}: unknown system {system!r}; choose from: {_list(systems)}")
    if not system and len(systems) > 1:
        raise InputError(f"{path}: holds {len(systems)} systems; name one as {path}#SYSTEM: {_list(systems)}")
    judged: dict[str, dict[str, Judged]] = {}
    for row in rows:
        if row.system == (system or systems[0]):
            judged.setdefault(row.metric, {})[row.case] = row
    side = Side(spec, judged)
    texts = [one.golden for one in side.cases.values()]
    return replace(side, version=set_version(texts)) if all(texts) else side


def edits_between(first: Side, second: Side) -> dict[str, list[str]]:
    """The cases of both whose question, ground truth or gold chunks differ, and which of them; white space aside.

    A ground truth or gold chunks that one file alone has count as no edit. Raises InputError if the sides share no
    case, and if half of the questions or more differ: then the same id does not mean the same case.
    """
    ours, theirs = first.cases, second.cases
    shared = [case for case in ours if case in theirs]
    if not shared:
        raise InputError(f"{second.name}: has no case in common with {first.name}: no id and no question is the same")
    found = {case: edited(*map(_hashes, (ours[case], theirs[case]))) for case in shared}
    other = [case for case in shared if "question" in found[case]]
    if 2 * len(other) >= len(shared):
        case = other[0]
        asked = f"{one_line(theirs[case].question)!r} instead of {one_line(ours[case].question)!r}"
        raise InputError(
            f"{second.name}: comes from a different input: in {len(other)} of {len(shared)} cases the question differs "
            f"from {first.name}, the first is case {case!r}: {asked}. "
            "Run `evaluate` on both inputs again: it now pairs cases without an id by their question"
        )
    edits = {case: fields for case, fields in found.items() if fields}
    if len(edits) == len(shared):
        raise InputError(
            f"{second.name}: every case was edited since {first.name}: evaluate both versions on the same questions, "
            "ground truths and gold chunks"
        )
    return edits


def _hashes(judged: Judged) -> dict[str, str]:
    """Those of the case, of its question also where the file is of an earlier version."""
    return {**golden_hashes(judged.question, None, ()), **judged.golden}


def shared_metrics(sides: Sequence[Side], wanted: Sequence[str] = ()) -> list[str]:
    """The metrics to compare: those wanted, by default all that every side has.

    Raises InputError if a side lacks one that is wanted, or there is none that all have.
    """
    for metric in wanted:
        for side in sides:
            if metric not in side.judged:
                raise InputError(f"{side.name}: has no metric {metric!r}; it has: {_list(side.judged)}")
    if wanted:
        return list(dict.fromkeys(wanted))
    shared = [metric for metric in sides[0].judged if all(metric in side.judged for side in sides)]
    if not shared:
        has = "; ".join(f"{side.name} has {_list(side.judged)}" for side in sides)
        raise InputError(f"the files share no metric: {has}")
    return shared


def _list(names: Iterable[str]) -> str:
    return one_line(", ".join(names))
