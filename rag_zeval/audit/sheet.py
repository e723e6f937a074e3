"""Draws, writes and reads the sheets that people label.

A sheet is a CSV file for any spreadsheet program. Its rows are claims or answers of a result file, sampled by strata.
A .json file beside it, the plan, says how they were drawn, so that the sheet shows nothing of the scores.
"""

import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random

from rag_zeval.cases.case import NO_SLICE
from rag_zeval.csv_files import sheet_rows, sheet_text
from rag_zeval.errors import InputError
from rag_zeval.files import Maybe, check_fields, locate, read_json, write_json, write_text
from rag_zeval.results import Judged, read_judged
from rag_zeval.scorers.registry import best_value, lower_is_better
from rag_zeval.statistics.allocation import allocate
from rag_zeval.text import content_hash, one_line

CLAIM, ANSWER = UNITS = ("claim", "answer")
BANDS = 4  # score bands of equal width, from 0 to 1
FIRST, LAST = ("id", "question"), ("label", "note")  # columns; the texts to judge by and to judge are between them
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
LATER = ", added later"  # ends the name of a stratum whose items were added after a sheet was drawn
RAREST = 1e-9  # lowest valid probability of a row


@dataclass(frozen=True)
class Item:
    """An answer, or one claim of an answer, for a person to label.

    id: a hash of metric, case, system, answer and claim, so it does not reveal the score. Another text has another id.
    sources: the texts to judge by, each as (name in words, text). claim: None if the item is a whole answer. score: the
    judge's score, from 0 to 1; for a claim 1 (supported) or 0. analysis: what the judge wrote about the claim. share:
    the item's part of its answer's score; for a claim 1 / the number of claims. system: the one that gave the answer.
    """

    id: str
    case: str
    slice: str
    question: str
    sources: tuple[tuple[str, str], ...]
    answer: str
    claim: str | None
    score: float
    analysis: str
    share: float = 1.0
    system: str = ""

    @cached_property
    def stratum(self) -> str:
        """The name of its stratum: the band of its score, and its slice."""
        band = min(int(self.score * BANDS), BANDS - 1)
        return f"{band / BANDS:.2f} to {(band + 1) / BANDS:.2f}, {self.slice}"

    @property
    def asked_about(self) -> str:
        """The text that people label: the claim, or the answer if the item is a whole answer."""
        return self.answer if self.claim is None else self.claim

    @cached_property
    def text_key(self) -> str:
        """A hash of the question, the texts to judge by, and the claim or answer.

        White space does not count, nor does the judge. For a claim, its answer does not count either.
        """
        texts = [self.question, *(text for source in self.sources for text in source), self.asked_about]
        return content_hash(self.claim is not None, [" ".join(text.split()) for text in texts])


@dataclass(frozen=True)
class Population:
    """All items of one metric. `without`: how many answers have no item, because they have no score or no claim."""

    metric: str
    items: list[Item]
    without: int


def read_items(path: str | Path, unit: str, metric: str | None = None) -> Population:
    """Read the items of one metric that people can label from a result file.

    unit: "claim" or "answer". metric: may be None if only one metric of the file has such items. Raises InputError as
    `read_judged` does, for a metric that the file lacks, and if there are no items. With whole answers, it is also
    raised for scores outside of 0 to 1, for a metric that goes higher, and for a metric for which lower is better:
    people's grades are high for a good answer, so they cannot correct it.
    """
    judged = read_judged(path)
    metrics = list(dict.fromkeys(one.metric for one in judged if unit == ANSWER or one.claims is not None))
    if not metrics:
        raise InputError(f"{path}: no metric in it has claims: add --unit answer to label whole answers")
    if metric is None and len(metrics) == 1:
        metric = metrics[0]
    what = "claims" if unit == CLAIM else "scores"
    if metric is None:
        raise InputError(f"{path}: has {what} of several metrics: name one of them with --metric: {', '.join(metrics)}")
    if metric not in metrics:
        raise InputError(f"{path}: has no {what} of {metric}, only of {', '.join(metrics)}")
    if lower_is_better(metric):
        raise InputError(f"{path}: the lower {metric} is, the better, but people's labels are high for a good answer")
    if unit == ANSWER and best_value(metric) > 1:
        raise InputError(f"{path}: {metric} goes up to {best_value(metric):g}, but people's grades stand for 0 to 1")
    answers = [one for one in judged if one.metric == metric]
    for one in answers if unit == ANSWER else ():
        if one.score is not None and not 0 <= one.score <= 1:
            raise InputError(f"{path}: case '{one.case}': {metric} is {one.score:g}, must be from 0 to 1")
    items = [items_of(one, unit) for one in answers]
    population = Population(metric, [item for some in items for item in some], sum(not some for some in items))
    if not population.items:
        raise InputError(f"{path}: no answer has a {'claim' if unit == CLAIM else 'score'} by {metric}")
    return population


def items_of(judged: Judged, unit: str) -> list[Item]:
    """Return the items of one judged answer: its claims, or (unit "answer") the answer itself if it has a score."""
    if unit == ANSWER:
        return [] if judged.score is None else [_item(judged, None, None, judged.score, "", 1.0)]
    claims = judged.claims or ()
    return [
        _item(judged, number, claim["claim"], float(claim["is_supported"]), claim["analysis"], 1 / len(claims))
        for number, claim in enumerate(claims)
    ]


def _item(judged: Judged, number: int | None, claim: str | None, score: float, analysis: str, share: float) -> Item:
    identity = content_hash(judged.metric, judged.case, judged.system, judged.answer, number, claim)
    id_ = "r" + identity[:12]  # the letter keeps spreadsheets from reading 123456789012 or 12e3456789 as a number
    slice_ = NO_SLICE if judged.slice_tag is None else judged.slice_tag
    asked, sources = judged.question, tuple(judged.sources)
    answer, system = judged.answer, judged.system
    return Item(id_, judged.case, slice_, asked, sources, answer, claim, score, analysis, share, system)


def draw(items: Sequence[Item], n: int, seed: int) -> list[tuple[Item, float]]:
    """Draw a stratified sample of n items, or all if there are fewer, each with its probability of being drawn.

    Each stratum is sampled without replacement, and `allocate` sets its number of rows. So the probability is rows /
    items of the stratum, in (0, 1]. Weighted by 1 / probability, a sum over the sample is an unbiased estimate of the
    sum over all items (Horvitz and Thompson 1952, JASA 47, 663-685). The sample is sorted by id, which is independent
    of the scores. Raises InputError if n is less than the number of strata.
    """
    strata = strata_of(items)
    if n < len(strata):
        raise InputError(
            f"--n {n} is too small: there are {len(strata)} groups (by score band and slice), and each needs at least "
            f"one row; use --n {len(strata)} or more"
        )
    random = Random(seed)
    drawn = []
    for stratum, rows in zip(strata.values(), allocate([len(one) for one in strata.values()], n), strict=True):
        drawn += [(item, rows / len(stratum)) for item in random.sample(stratum, rows)]
    return sorted(drawn, key=lambda pair: pair[0].id)


def strata_of(items: Sequence[Item], plan: "SheetPlan | None" = None) -> dict[str, list[Item]]:
    """Group the items by the name of their stratum. The order of strata and items is independent of that of `items`.

    plan: that of an earlier sheet, if its rows are kept; each item then stays in its stratum. The rows of a stratum do
    not stand for items that are new, because these could not be drawn. So the new items of a stratum are one of their
    own.
    """
    known = {**(plan.others or {}), **plan.strata} if plan else {}
    names = set(known.values())
    strata: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: (item.stratum, item.id)):
        name = known.get(item.id, item.stratum)
        while plan and plan.is_new(item) and name in names:
            name += LATER
        strata.setdefault(name, []).append(item)
    return strata


def stratum_of_each(items: Sequence[Item], plan: "SheetPlan | None" = None) -> dict[str, str]:
    """Return the name of each item's stratum, by id. plan: as in `strata_of`."""
    return {item.id: name for name, of_stratum in strata_of(items, plan).items() for item in of_stratum}


def draw_more(
    items: Sequence[Item], plan: "SheetPlan", labels: Mapping[str, "Label"], n: int, seed: int
) -> list[tuple[Item, float]]:
    """Add n new rows, or all that are left, to the rows of a sheet. Returns all of them with their new probabilities.

    Each new row comes from the stratum where it shrinks the interval of the mean most, judged by the spread of the
    labels so far (Neyman allocation: Cochran 1977, Sampling Techniques, section 5.5). Within a stratum, old and new
    rows together count as a simple random sample: each has the probability rows / items of the stratum. That is nearly
    right. A stratum whose first labels happen to be equal gets fewer new rows, which biases the mean a little. Items
    that are new since the sheet was drawn have strata of their own (see `strata_of`).
    Raises InputError for a sheet of kept labels, because its rows were drawn from other strata.
    """
    if plan.kept:
        raise InputError("--more: this sheet was made of kept labels; `rag-zeval reuse-labels --n` adds rows to it")
    random, drawn = Random(seed), []
    strata = strata_of(items, plan)
    old = {name: [item for item in stratum if item.id in plan.probabilities] for name, stratum in strata.items()}
    spread = {
        name: sum(item.share for item in stratum) ** 2
        * _variance([labels[i.id].value for i in old[name] if i.id in labels])
        for name, stratum in strata.items()
    }
    rows = {name: len(some) for name, some in old.items()}
    for _ in range(n):
        open_ = [name for name, stratum in strata.items() if rows[name] < len(stratum)]
        if not open_:
            break
        # by how much one more row reduces spread / rows; 0.5 prevents a division by 0 if a stratum has no row
        rows[max(open_, key=lambda name: spread[name] / max(rows[name] * (rows[name] + 1), 0.5))] += 1
    for name, stratum in strata.items():
        fresh = [item for item in stratum if item.id not in plan.probabilities]
        chosen = [*old[name], *random.sample(fresh, rows[name] - len(old[name]))]
        drawn += [(item, rows[name] / len(stratum)) for item in chosen]
    return sorted(drawn, key=lambda pair: pair[0].id)


def _variance(labels: Sequence[float]) -> float:
    """Return the variance of a stratum's labels, with a 0 and a 1 added because few labels show too little spread."""
    return statistics.pvariance([*labels, 0.0, 1.0])


@dataclass(frozen=True)
class SheetPlan:
    """How a sheet was drawn: its metric, its unit, and the probability and the stratum of each row by id.

    kept: whether it is a sheet of kept labels. Their strata come from the file of labels, not from the results (see
    `kept_labels`). others: the strata of the items without a row; None in plans of earlier versions that are not of
    kept labels. filled: the labels that a sheet of kept labels was written with, by row id. text_keys: the key of the
    texts that each row showed, by id; empty in plans of earlier versions.
    """

    metric: str
    unit: str
    probabilities: dict[str, float]
    strata: dict[str, str]
    kept: bool = False
    others: dict[str, str] | None = None
    filled: dict[str, str] = field(default_factory=dict)
    text_keys: dict[str, str] = field(default_factory=dict)

    def edited(self, item: Item) -> bool:
        """Whether the item has a row that showed another question or other texts to judge by: its label is of those."""
        return item.id in self.text_keys and self.text_keys[item.id] != item.text_key

    def is_new(self, item: Item) -> bool:
        """Whether the results had no such item when the sheet was drawn. Plans of earlier versions do not say so."""
        return self.others is not None and item.id not in self.others and item.id not in self.probabilities

    def weigh(self, labels: Mapping[str, "Label"]) -> dict[str, "Label"]:
        """Return the labels with the number of items that each stands for: the design weights of the sample.

        labels: by row id. A row stands for 1 / probability items. Those of rows without a label are shared among the
        labels of the stratum (Särndal, Swensson and Wretman 1992, chapter 15). Whatever part of the results is
        estimated, such as one system, a label has this weight. A weight by the number of the part's own items would
        leave out the items of strata where the part happens to have no label.
        """
        rows, labelled = Counter(self.strata.values()), Counter(self.strata[id_] for id_ in labels)
        return {
            id_: replace(label, stands_for=rows[of] / labelled[of] / self.probabilities[id_])
            for id_, label in labels.items()
            for of in [self.strata[id_]]
        }

    def without_label(self, items: Sequence[Item], labels: Collection[str]) -> str | None:
        """Say how many of these items no label stands for; None if there are none.

        They are in strata without any label, or were not among the items when the sheet was drawn. labels: the ids of
        all rows that have a label.
        """
        known = {self.strata[id_] for id_ in labels}
        strata = stratum_of_each(items) if self.others is None else {**self.others, **self.strata}
        count = sum(strata.get(item.id) not in known for item in items)
        if not count:
            return None
        where, todo = "are", "label a row of each"
        if self.kept:
            where, todo = "have new texts, or are", "`rag-zeval reuse-labels --n` draws rows of new texts to label"
        elif any(map(self.is_new, items)):
            where, todo = "are new since the sheet was drawn, or are", "`rag-zeval sample --more` draws rows of them"
        return (
            f"{count} of {len(items)} {self.unit}s {where} in a score band and slice without any label. The figures "
            f"assume that they are like the others: {todo}"
        )


@dataclass(frozen=True)
class Label:
    """A person's label of a row, from 0 to 1, with its text and the note. A grade g has the value (g - 1) / 4.

    stands_for: how many items of the results it stands for (see `SheetPlan.weigh`).
    """

    value: float
    text: str
    note: str
    stands_for: float = 1.0


def value_of(label: str, unit: str) -> float | None:
    """Return the value of a label in words, such as "Yes"; None if it is no label of the unit."""
    return LABELS[unit].get(" ".join(label.split()).casefold())


def plan_of(
    metric: str,
    unit: str,
    drawn: Sequence[tuple[Item, float]],
    strata: Mapping[str, str],
    kept: Mapping[str, Label] | None = None,
) -> SheetPlan:
    """Return the plan of rows that were drawn with these probabilities.

    strata: of all items, by id. kept: for a sheet of kept labels, the labels to fill in, by row id.
    """
    probabilities = {item.id: probability for item, probability in drawn}
    others = {id_: stratum for id_, stratum in strata.items() if id_ not in probabilities}
    filled = {id_: label.text for id_, label in (kept or {}).items()}
    keys = {item.id: item.text_key for item, _ in drawn}
    own = {id_: strata[id_] for id_ in probabilities}
    return SheetPlan(metric, unit, probabilities, own, kept is not None, others, filled, keys)


def plan_path(sheet: Path) -> Path:
    """Return the path of the plan of a sheet, which is beside it."""
    return sheet.with_name(f"{sheet.name}.json")


def write_sheet(path: Path, plan: SheetPlan, items: Sequence[Item], seed: int, labels: Mapping[str, Label]) -> None:
    """Write a sheet and its plan. The sheet shows no score and nothing that depends on one; the plan does.

    items: those of the rows. labels: labels to fill in, by row id. Each kind of text to judge by has its own column,
    such as "ground truth" or "retrieved contexts". The plan is written first. If a run is killed before it writes the
    sheet, the same command writes it.
    Raises InputError if the sheet already exists, because it may hold labels, or if the plan of another sheet exists.
    """
    draws = {
        id_: {"stratum": plan.strata[id_], "probability": found, "texts": plan.text_keys[id_]}
        for id_, found in plan.probabilities.items()
    }
    written = {"metric": plan.metric, "unit": plan.unit, "seed": seed, "rows": draws, "others": plan.others}
    if plan.kept:
        written |= {"kept": True, "filled": plan.filled}
    if path.exists():
        raise InputError(f"{path}: already exists and may hold labels; choose another --out")
    if plan_path(path).exists() and read_json(plan_path(path)) != written:
        raise InputError(f"{plan_path(path)}: already exists and is of another sheet; choose another --out")
    sources = dict.fromkeys(name for item in items for name, _ in item.sources)
    columns = [*FIRST, *sources, *JUDGED[plan.unit], *LAST]
    known = {id_: {"label": label.text, "note": label.note} for id_, label in labels.items()}
    rows = [{**vars(item), **dict(item.sources), **known.get(item.id, {})} for item in items]
    write_json(plan_path(path), written)
    write_text(path, sheet_text(columns, [[row.get(name, "") for name in columns] for row in rows]))


def read_plan(sheet: Path) -> SheetPlan:
    """Read the plan of a sheet. Raises InputError naming file and field, and if the plan is missing."""
    path = plan_path(sheet)
    if not sheet.exists():
        raise InputError(f"{sheet}: is missing: `rag-zeval sample` writes it")
    if not path.exists():
        raise InputError(
            f"{path}: is missing: `rag-zeval sample` writes it beside the sheet. If you copy the sheet, copy it too, "
            "under the matching name"
        )
    plan = read_json(path)
    with locate(path):
        rows = {str: {"probability": (int, float), "stratum": str, "texts": Maybe(str)}}
        more = {"kept": Maybe(bool), "others": Maybe({str: str}), "filled": Maybe({str: str})}
        check_fields(plan, {"metric": str, "unit": str, "rows": rows, **more})
        if plan["unit"] not in UNITS:
            raise InputError(f"field 'unit': must be one of {', '.join(UNITS)}")
        probabilities = {id_: float(row["probability"]) for id_, row in plan["rows"].items()}
        for id_, probability in probabilities.items():
            if not RAREST <= probability <= 1:
                raise InputError(f"row '{id_}': field 'probability': must be from {RAREST:g} to 1")
    strata = {id_: row["stratum"] for id_, row in plan["rows"].items()}
    keys = {id_: row["texts"] for id_, row in plan["rows"].items() if "texts" in row}
    kept, others, filled = plan.get("kept", False), plan.get("others"), plan.get("filled", {})
    return SheetPlan(plan["metric"], plan["unit"], probabilities, strata, kept, others, filled, keys)


def check_drawn_from(sheet: Path, plan: SheetPlan, results: Path | str, items: Sequence[Item]) -> None:
    """Raise InputError if a row of the sheet is not among the items of this result file, or was edited since."""
    there = {item.id: plan.edited(item) for item in items}
    for said, rows in {
        "is not in": [id_ for id_ in plan.probabilities if id_ not in there],
        "has another question or other texts to judge by in": [id_ for id_ in plan.probabilities if there.get(id_)],
    }.items():
        if rows:
            raise InputError(
                f"{sheet}: row {rows[0]} (and {len(rows) - 1} more) {said} {results}: name the file that the sheet "
                "was drawn from, or draw a new sheet"
            )


def read_labels(path: Path, plan: SheetPlan) -> dict[str, Label]:
    """Read the labels of a sheet, by row id, with the number of items that each stands for.

    Rows without a label are left out. So are rows that somebody cleared, which a program writes as empty cells. Only
    id, label and note are read, so a program may have changed the other texts. Raises InputError naming file, line and
    field for an invalid label, an id that is not in the plan, and a duplicate id.
    """
    labels: dict[str, Label] = {}
    seen = set()
    for line, row in sheet_rows(path):
        with locate(f"{path}:{line}"):
            check_fields(row, {"id": str, "label": str})
            if not any(row.values()):
                continue
            id_, text = row["id"], row["label"]
            if id_ not in plan.probabilities:
                raise InputError(f"unknown id '{one_line(id_)}': this row was not drawn")
            if id_ in seen:
                raise InputError(f"duplicate id '{id_}'")
            seen.add(id_)
            value = value_of(text, plan.unit)
            if value is None and text.strip():
                raise InputError(f"field 'label': '{one_line(text)}' (row {id_}), must be {ASKED[plan.unit]}, or empty")
        if value is not None:
            labels[id_] = Label(value, text.strip(), row.get("note", ""))
    return plan.weigh(labels)
