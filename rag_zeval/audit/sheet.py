"""The sheet that people label, as CSV for any spreadsheet program; and beside it, apart, how its rows were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.audit.items import ANSWER, CLAIM, UNITS, Item
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, locate, read_json, write_json, write_text
from rag_zeval.text import one_line

FIRST, LAST = ("id", "question"), ("label", "note")  # columns; between them what to judge by, and what to judge
JUDGED = {CLAIM: ("answer", "claim"), ANSWER: ("answer",)}
_WORDS = {"yes": 1.0, "true": 1.0, "supported": 1.0, "no": 0.0, "false": 0.0, "unsupported": 0.0, "not supported": 0.0}
LABELS = {
    CLAIM: {**_WORDS, "1": 1.0, "0": 0.0},
    ANSWER: {**_WORDS, "1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0},
}
ASKED = {
    CLAIM: "supported or not supported (or yes and no, true and false, 1 and 0)",
    ANSWER: "a grade from 1 (all wrong) to 5 (all right), or yes (as 5) and no (as 1)",
}
RAREST = 1e-9  # probability of a row to be drawn


@dataclass(frozen=True)
class Plan:
    """How a sheet was drawn: of which metric and unit, and each row's probability of being in it, by its id."""

    metric: str
    unit: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Label:
    """What a person wrote in a row: the label from 0 to 1 (a grade g counts (g - 1) / 4), its text, and the note."""

    value: float
    text: str
    note: str


def plan_path(sheet: Path) -> Path:
    """The file beside a sheet that holds its plan."""
    return sheet.with_name(f"{sheet.name}.json")


def write_sheet(path: Path, metric: str, unit: str, drawn: Sequence[tuple[Item, float]], seed: int) -> None:
    """Write the sheet, which shows no score and nothing that depends on one, and its plan, which does.

    What to judge by has a column for each kind of it, such as "ground truth" or "retrieved contexts".
    Raises InputError if one of them is there already: it may hold somebody's labels.
    """
    for file in (path, plan_path(path)):
        if file.exists():
            raise InputError(f"{file}: already exists and may hold labels; choose another --out")
    sources = dict.fromkeys(name for item, _ in drawn for name, _ in item.sources)
    columns = [*FIRST, *sources, *JUDGED[unit], *LAST]
    rows = [{**vars(item), **dict(item.sources)} for item, _ in drawn]
    write_text(path, sheet_text(columns, [[row.get(name, "") for name in columns] for row in rows]))
    draws = {item.id: {"stratum": item.stratum, "probability": probability} for item, probability in drawn}
    write_json(plan_path(path), {"metric": metric, "unit": unit, "seed": seed, "rows": draws})


def read_plan(sheet: Path) -> Plan:
    """The plan of a sheet. Raises InputError naming file and field."""
    path = plan_path(sheet)
    if not path.exists():
        raise InputError(
            f"{path}: is missing: `rag-zeval sample` writes it beside the sheet. If you copy the sheet, copy it too, "
            "under the matching name"
        )
    plan = read_json(path)
    with locate(path):
        check_fields(plan, {"metric": str, "unit": str, "rows": dict})
        if plan["unit"] not in UNITS:
            raise InputError(f"field 'unit': must be one of {', '.join(UNITS)}")
        probabilities = {}
        for id_, row in plan["rows"].items():
            with locate(f"row '{id_}'"):
                check_fields(row, {"probability": (int, float)})
                if not RAREST <= row["probability"] <= 1:
                    raise InputError(f"field 'probability': must be from {RAREST:g} to 1")
            probabilities[id_] = float(row["probability"])
    return Plan(plan["metric"], plan["unit"], probabilities)


def read_labels(path: Path, plan: Plan) -> dict[str, Label]:
    """The labels of a sheet by row id, empty ones left out; texts that a program may have changed are not looked at.

    Raises InputError naming file, line and field: a label that is none, an id that is not of the plan or stands twice.
    """
    labels: dict[str, Label] = {}
    seen = set()
    for line, row in sheet_rows(path):
        with locate(f"{path}:{line}"):
            check_fields(row, {"id": str, "label": str})
            id_, text = row["id"], row["label"]
            if id_ not in plan.probabilities:
                raise InputError(f"unknown id '{one_line(id_)}': this row was not drawn")
            if id_ in seen:
                raise InputError(f"duplicate id '{id_}'")
            seen.add(id_)
            word = " ".join(text.split()).casefold()
            if word and word not in LABELS[plan.unit]:
                raise InputError(f"field 'label': '{one_line(text)}' (row {id_}), must be {ASKED[plan.unit]}, or empty")
        if word:
            labels[id_] = Label(LABELS[plan.unit][word], text.strip(), row.get("note", ""))
    return labels
