"""Labels that later runs can reuse: one JSONL file for version control, with each label by the text it is about.

A row of the file is a label or a draw. A draw lists the texts that a sheet was drawn from, by stratum. From it a later
run knows which of its texts the labels stand for, independent of its judge and its scores.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rag_zeval.audit.sheet import UNITS, Item, Label, SheetPlan, draw, strata_of, value_of
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, check_fields, iter_jsonl, json_line, locate, write_chunks
from rag_zeval.text import content_hash

NEW = "new"
ADJUDICATED = "adjudicated"  # the person whose labels decide if others differ
DRAW: FieldTypes = {"draw": str, "unit": str, "strata": {str: [str]}}
LABEL: FieldTypes = {"text": str, "person": str, "label": str, "note": str}


def text_keys(items: Iterable[Item]) -> list[str]:
    """Return the key of each item's texts. The second item with the same texts gets `#2` at the end of its key."""
    seen: Counter[str] = Counter()
    keys = []
    for key in (item.text_key for item in items):
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return keys


@dataclass(frozen=True)
class KeptLabels:
    """The rows of a file of labels: the draws, oldest first, and people's labels."""

    draws: Sequence[Row] = ()
    labels: Sequence[Row] = ()

    @cached_property
    def places(self) -> dict[str, tuple[str, str]]:
        """Draw and stratum of each text that a sheet was drawn from. A text of several draws belongs to the first."""
        found: dict[str, tuple[str, str]] = {}
        for one in self.draws:
            for stratum, texts in one["strata"].items():
                for text in texts:
                    found.setdefault(text, (one["draw"], stratum))
        return found

    @cached_property
    def by_text(self) -> dict[str, dict[str, Label]]:
        """The labels of each text, by person."""
        unit = self.draws[0]["unit"] if self.draws else UNITS[0]
        found: dict[str, dict[str, Label]] = {}
        for row in self.labels:
            found.setdefault(row["text"], {})[row["person"]] = as_label(row, unit)
        return found

    def disputed(self) -> dict[str, dict[str, Label]]:
        """Return the labels, by person, of each text on which people differ and ADJUDICATED has not decided."""
        return {
            text: by_person
            for text, by_person in self.by_text.items()
            if ADJUDICATED not in by_person and len({label.value for label in by_person.values()}) > 1
        }


def as_label(row: Row, unit: str) -> Label:
    """Return the label of a row. Raises InputError naming the field if its word is no label of the unit."""
    value = value_of(row["label"], unit)
    if value is None:
        raise InputError(f"field 'label': {row['label']!r} is no label of a {unit}")
    return Label(value, row["label"], row["note"])


def read_kept(path: Path) -> KeptLabels:
    """Read a file of labels. Raises InputError naming file, line and field."""
    rows = list(iter_jsonl(path))
    draws = [row for _, row in rows if "strata" in row]
    if not draws:
        raise InputError(f"{path}: holds no draw, which `rag-zeval keep-labels` writes before the labels")
    for line, row in rows:
        with locate(f"{path}:{line}"):
            check_fields(row, DRAW if "strata" in row else LABEL)
            if "strata" in row and (row["unit"] not in UNITS or row["unit"] != draws[0]["unit"]):
                raise InputError(f"field 'unit' must be one of {', '.join(UNITS)}, and the same in all lines")
    kept = KeptLabels(draws, [row for _, row in rows if "strata" not in row])
    for line, row in rows:
        if "strata" not in row:
            with locate(f"{path}:{line}"):
                as_label(row, draws[0]["unit"])
                if row["text"] not in kept.places:
                    raise InputError(f"field 'text': no draw has {row['text']!r}")
    return kept


@dataclass(frozen=True)
class Added:
    """The file after adding labels, and how many labels were new, replaced or not kept.

    replaced: labels that changed an earlier label of the same person. outside: rows that were not kept. Their texts
    belong to an earlier draw and have no label there, so adding them would bias the random sample of that draw.
    """

    kept: KeptLabels
    new: int
    replaced: int
    outside: int


def keep(path: Path, items: Sequence[Item], plan: SheetPlan, labels: Mapping[str, Label], person: str) -> Added:
    """Add a person's labels to a file. The file need not exist.

    items: all items that the sheet with this plan was drawn from. labels: by item id. A label that is as the sheet was
    written with it is not added if it is somebody else's, unless ADJUDICATED confirms it.
    Raises InputError as `read_kept` does, if the file holds labels of another unit, and if there is no label to add.
    """
    unit = plan.unit
    kept = read_kept(path) if path.exists() else KeptLabels()
    if kept.draws and kept.draws[0]["unit"] != unit:
        raise InputError(f"{path}: holds labels of {kept.draws[0]['unit']}s, not of {unit}s: name another file")
    if not labels:  # it would leave a new file without a draw, which `read_kept` refuses
        raise InputError("column 'label' of the sheet is empty in every row: fill it in")
    keys = dict(zip((item.id for item in items), text_keys(items), strict=True))
    strata = strata_of(items, None if plan.kept else plan)
    texts = {name: [keys[item.id] for item in of_stratum] for name, of_stratum in strata.items()}
    own, fresh = _draws_of(texts, unit, kept.draws)
    draws = [*kept.draws]
    if any(keys[id_] not in kept.places for id_ in labels):
        draws.append({"draw": content_hash(unit, fresh), "unit": unit, "strata": fresh})
    rows = {(row["text"], row["person"]): row for row in kept.labels}
    before, replaced, outside = len(rows), 0, 0
    for item in items:
        if (label := labels.get(item.id)) is not None:
            text, told = keys[item.id], {"question": item.question, unit: item.asked_about}
            if text in kept.places and text not in kept.by_text and kept.places[text][0] not in own:
                outside += 1
                continue
            known = kept.by_text.get(text, {})
            confirmed = person == ADJUDICATED or (person in known and known[person].value == label.value)
            unchanged = label.text.casefold() == plan.filled.get(item.id, "").casefold()
            if known and unchanged and not confirmed:
                continue
            row = {"text": text, "person": person, "label": label.text, "note": label.note, **told}
            replaced += person in known and known[person].value != label.value
            rows[text, person] = row
    found = KeptLabels(draws, list(rows.values()))
    write_chunks(path, map(json_line, [*found.draws, *found.labels]))
    return Added(found, len(rows) - before, replaced, outside)


def _draws_of(
    strata: Mapping[str, list[str]], unit: str, draws: Sequence[Row]
) -> tuple[set[str], dict[str, list[str]]]:
    """Return the ids of the draws that were made from these texts, and the texts that are in no draw.

    strata: the texts by stratum. A draw holds only texts that no earlier draw has.
    """
    own: set[str] = set()
    left = {name: texts for name, texts in strata.items() if texts}
    for one in draws:
        if content_hash(unit, left) == one["draw"]:
            own.add(one["draw"])
        drawn = {text for texts in one["strata"].values() for text in texts}
        fewer = {name: [text for text in texts if text not in drawn] for name, texts in left.items()}
        left = {name: texts for name, texts in fewer.items() if texts}
    return own, left


@dataclass(frozen=True)
class Reused:
    """The content of a sheet of kept labels: its rows with their probabilities, and their labels by row id.

    strata: of all items, by id. more: number of new rows. of: number of items whose texts are in no draw, from which
    the new rows were taken. unlabelled: number of items whose texts are in a stratum of a draw that has none of
    `labels`.
    """

    rows: list[tuple[Item, float]]
    strata: dict[str, str]
    labels: dict[str, Label]
    more: int
    of: int
    unlabelled: int


def reuse(kept: KeptLabels, items: Sequence[Item], person: str | None, more: int, seed: int) -> Reused:
    """Select the items that somebody has labelled, and draw `more` rows from the items whose texts are in no draw.

    A row gets the label of `person`; by default that of ADJUDICATED, or else of the first person who labelled it. Its
    probability is labelled texts / all texts of its stratum, in its own draw. So labels stand for the same texts as
    before, even if another judge scores them differently. Raises InputError as `draw` does if `more` is too small, but
    not if it is 0.
    """
    sizes = Counter(kept.places.values())
    labelled = Counter(kept.places[text] for text in kept.by_text)
    rows: list[tuple[Item, float]] = []
    fresh: list[Item] = []
    strata: dict[str, str] = {}
    labels: dict[str, Label] = {}
    for item, text in zip(items, text_keys(items), strict=True):
        place, by_person = kept.places.get(text), kept.by_text.get(text)
        strata[item.id] = ": ".join(place or (NEW, item.stratum))
        if place is None:
            fresh.append(item)
        elif by_person is not None:
            rows.append((item, labelled[place] / sizes[place]))
            asked = [person] if person else [ADJUDICATED, *by_person]
            if label := next((by_person[name] for name in asked if name in by_person), None):
                labels[item.id] = label
    drawn = draw(fresh, more, seed) if fresh and more else []
    known = {strata[id_] for id_ in labels}
    every = sorted([*rows, *drawn], key=lambda row: row[0].id)
    unlabelled = sum(strata[item.id] not in known for item in items) - len(fresh)
    return Reused(every, strata, labels, len(drawn), len(fresh), unlabelled)
