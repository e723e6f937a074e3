"""The sides of a comparison: each is the judged answers of one system in a result file."""

from __future__ import annotations

import itertools
import os
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
    """One system's judged answers, by metric and case.

    name: FILE or FILE#SYSTEM, as the user gave it. version: identifies the set of questions that it answered; None for
    files of earlier versions of RAG-Zeval, which lack what it is computed from. edited: the cases that are left out
    because their texts differ between the sides, each with the fields that differ.
    """

    name: str
    judged: Mapping[str, Mapping[str, Judged]]
    version: str | None = None
    edited: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def cases(self) -> dict[str, Judged]:
        """One judged answer for each case, from any of the metrics."""
        return {case: one for by_case in self.judged.values() for case, one in by_case.items()}

    def without(self, edits: Mapping[str, Sequence[str]]) -> Side:
        """Return the same side without the answers to cases that were edited."""
        kept = {
            metric: {case: one for case, one in by_case.items() if case not in edits}
            for metric, by_case in self.judged.items()
        }
        return replace(self, judged=kept, edited=edits)

    def by_question(self) -> Side:
        """Return the same side with cases identified by their questions.

        Equal questions are numbered in the order of their ids, where 10 comes after 9. The order of the rows does not
        matter: `evaluate` writes each row when its score is there, and a metric may lack rows.
        """
        seen: Counter[str] = Counter()
        ids = {}
        for case, one in sorted(self.cases.items(), key=lambda item: (len(item[0]), item[0])):
            id_ = question_id(one.question)
            seen[id_] += 1
            ids[case] = f"{id_}#{seen[id_]}"
        judged = {metric: {ids[case]: one for case, one in by_case.items()} for metric, by_case in self.judged.items()}
        return replace(self, judged=judged)


def are_different(specs: Sequence[str]) -> bool:
    """Whether no two specs name the same file and system, however its path is written."""
    named = [file_and_system(spec) for spec in specs]
    return len({(os.path.realpath(path), system) for path, system in named}) == len(named)


def check_different(command: str, specs: Sequence[str]) -> None:
    """Raise InputError, naming the command, unless `are_different`."""
    if not are_different(specs):
        raise InputError(f"{command}: the same result file is given twice; remove one")


def read_sides(specs: Sequence[str]) -> list[Side]:
    """Read the sides that each `FILE` or `FILE#SYSTEM` names, and pair their cases.

    Raises InputError as `read_side` and `paired` do.
    """
    return paired([read_side(spec) for spec in specs])


def paired(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with cases that can be paired: by id, or by question if a side shares no id with the first.

    A case that was edited between the sides (its question, ground truth or gold chunks) is left out of all sides.
    Raises InputError as `edits_between` does.
    """
    by_id = all(sides[0].cases.keys() & side.cases.keys() for side in sides)
    if not by_id:
        sides = [side.by_question() for side in sides]
    edits: dict[str, list[str]] = {}
    for first, second in itertools.combinations(sides, 2):
        found = edits_between(first, second) if first is sides[0] else _edits(first.cases, second.cases)
        for case, fields in found.items():
            edits[case] = list(dict.fromkeys([*edits.get(case, ()), *fields]))
    if not by_id:
        print("note: the files share no id, so cases are paired by their questions", file=sys.stderr)
    return [side.without(edits) for side in sides] if edits else [*sides]


def file_and_system(spec: str) -> tuple[Path, str]:
    """Split `FILE` or `FILE#SYSTEM` into the file and the system, which is "" if none is named.

    Both names may hold a "#": the file is the longest name that exists. If none does, the last "#" separates them.
    Raises InputError for FILE:SYSTEM.
    """
    parts = spec.split("#")
    for at in range(len(parts), 0, -1):
        if os.path.exists(path := "#".join(parts[:at])):
            return Path(path), "#".join(parts[at:])
    path, colon, system = spec.rpartition(":")
    if colon and os.path.exists(path):
        raise InputError(f"{spec}: no such file; to name a system of {path}, write {path}#{system}")
    path, mark, system = spec.rpartition("#")
    return (Path(path), system) if mark else (Path(spec), "")


def files_of(specs: Iterable[str]) -> list[Path]:
    """Return the files that these specs name. One that holds several systems comes once."""
    return list(dict.fromkeys(file_and_system(spec)[0] for spec in specs))


def read_side(spec: str) -> Side:
    """Read the side that `FILE` or `FILE#SYSTEM` names.

    Raises InputError, listing the systems, if the file holds several and none is named, or lacks the one that is named.
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
    """Return the shared cases whose question, ground truth or gold chunks differ, each with the fields that differ.

    White space does not count. A ground truth or gold chunks that only one file has are no edit. Raises InputError if
    the sides share no case, or if every shared case was edited. Also if half of the questions or more differ, because
    then the same id does not mean the same case.
    """
    ours, theirs = first.cases, second.cases
    shared = [case for case in ours if case in theirs]
    edits = _edits(ours, theirs)
    if not shared:
        raise InputError(f"{second.name}: has no case in common with {first.name}: no id and no question is the same")
    other = [case for case, fields in edits.items() if "question" in fields]
    if 2 * len(other) >= len(shared):
        case = other[0]
        asked = f"{one_line(theirs[case].question)!r} instead of {one_line(ours[case].question)!r}"
        raise InputError(
            f"{second.name}: comes from a different input: in {len(other)} of {len(shared)} cases the question differs "
            f"from {first.name}, the first is case {case!r}: {asked}. "
            "Run `evaluate` on both inputs again: it now pairs cases without an id by their question"
        )
    if len(edits) == len(shared):
        raise InputError(
            f"{second.name}: every case was edited since {first.name}: evaluate both versions on the same questions, "
            "ground truths and gold chunks"
        )
    return edits


def _edits(ours: Mapping[str, Judged], theirs: Mapping[str, Judged]) -> dict[str, list[str]]:
    """Return the fields that differ, by case, for the shared cases that were edited."""
    found = {case: edited(*map(_hashes, (one, theirs[case]))) for case, one in ours.items() if case in theirs}
    return {case: fields for case, fields in found.items() if fields}


def _hashes(judged: Judged) -> dict[str, str]:
    """Return the hashes of a case. Files of earlier versions hold none, so that of the question is always computed."""
    return {**golden_hashes(judged.question, None, ()), **judged.golden}


def shared_metrics(sides: Sequence[Side], wanted: Sequence[str] = ()) -> list[str]:
    """Return the metrics to compare: the wanted ones, or by default all that every side has.

    Raises InputError if a side lacks a wanted metric, or if no metric is shared by all.
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
