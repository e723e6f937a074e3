"""What is compared: the judged answers of one system in a result file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.cases.reading import question_id
from rag_zeval.errors import InputError
from rag_zeval.results import Judged, read_judged
from rag_zeval.text import one_line


@dataclass(frozen=True)
class Side:
    """One system's judged answers by metric and case. `name` is the FILE or FILE#SYSTEM that the user gave."""

    name: str
    judged: Mapping[str, Mapping[str, Judged]]

    @property
    def questions(self) -> dict[str, str]:
        """The question of each case."""
        return {case: one.question for by_case in self.judged.values() for case, one in by_case.items()}

    def by_question(self) -> Side:
        """The same answers, their cases known by their questions, equal ones by their order."""
        judged: dict[str, dict[str, Judged]] = {}
        for metric, by_case in self.judged.items():
            seen: Counter[str] = Counter()
            for one in by_case.values():
                id_ = question_id(one.question)
                seen[id_] += 1
                judged.setdefault(metric, {})[f"{id_}#{seen[id_]}"] = one
        return Side(self.name, judged)


def read_sides(specs: Sequence[str]) -> list[Side]:
    """The sides that `FILE` or `FILE#SYSTEM` name, with cases that pair: by id, or by question where no id is shared.

    Raises InputError, as `read_side`, and where sides share no case or ask something else of one.
    """
    sides = [read_side(spec) for spec in specs]
    by_id = all(sides[0].questions.keys() & side.questions.keys() for side in sides)
    if not by_id:
        sides = [side.by_question() for side in sides]
    for other in sides[1:]:
        check_questions(sides[0], other)
    if not by_id:
        print("note: the files share no id, so cases are paired by their questions", file=sys.stderr)
    return sides


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
    return Side(spec, judged)


def check_questions(first: Side, second: Side) -> None:
    """Raise InputError unless the sides share cases, and a case that both have asks the same question."""
    ours, theirs = first.questions, second.questions
    shared = [case for case in ours if case in theirs]
    if not shared:
        raise InputError(f"{second.name}: has no case in common with {first.name}: no id and no question is the same")
    other = [case for case in shared if ours[case] != theirs[case]]
    if other:
        case = other[0]
        asked = f"{one_line(theirs[case])!r} instead of {one_line(ours[case])!r}"
        raise InputError(
            f"{second.name}: comes from a different input: in {len(other)} of {len(shared)} cases the question differs "
            f"from {first.name}, the first is case {case!r}: {asked}. "
            "Run `evaluate` on both inputs again: it now pairs cases without an id by their question"
        )


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
