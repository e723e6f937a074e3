"""Files as pandas, `datasets` and people write them: the scores of our own JSONL, or an error; never another score.

A file is made of random rows with fields nulled at random, in some format and orientation, its rows and columns
shuffled, its columns named by some name of the table. What it is read as is compared with the same rows as our own
JSONL: every text that a scorer sees, and the scores of scorers that ask nobody and of a judge that goes by the letter.
"""

import csv
import gzip
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
from commands import write_rows
from findings import Findings
from scripted_backend import ScriptedBackend

from rag_zeval.cases.case import CONTEXTS, TRUTH, Case, CaseSet
from rag_zeval.cases.names import NAMES
from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import InputError
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.overlap import RougeL
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scoring.estimate import mock_reply

FACTS = [
    "It opens at nine.", "It closes at five.", "Dogs are allowed.", "It's shut on Sunday.", 'They call it "The Barn".',
    "Two\nlines of it.", "文はここにある。", "Ça ouvre à 9 h.", "It costs 1,5; or so | roughly.", "[1] is its number.",
    "('Maybe') it rains.", "007", "1.5", "True", "It is so: {really}.", "A 'quoted' and a \"doubly quoted\" word.",
]  # fmt: skip
LABELS = {"007", "1.5", "True"}
FIELDS = ("id", "question", "answer", "contexts", "truth", "slice_tag", "context_ids")
SPELT: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    lambda name: name.replace("_", " ").title(),
    lambda name: name.replace("_", "-"),
    lambda name: f"{name}s" if not name.endswith("s") else name,
)
Rows = list[dict[str, Any]]


def some_rows(rng: random.Random) -> Rows:
    """Rows as our own JSONL has them; each field but the question may be null."""
    named = rng.choice(("all", "some", "none"))
    rows: Rows = []
    for number in range(rng.randrange(1, 6)):
        chunks = rng.sample(FACTS, rng.randrange(0, 4))
        if LABELS.issuperset(chunks[:1]):  # a column that holds nothing else is not read as contexts
            chunks[:1] = FACTS[:1]
        row = {
            "id": f"{number:03}" if rng.random() < 0.7 or named == "all" else None,
            "question": f"Question {number}, {rng.choice(FACTS)}?",
            "answer": " ".join(rng.sample(FACTS, rng.randrange(1, 4))),
            "contexts": chunks,
            "truth": rng.choice(FACTS),
            "slice_tag": rng.choice(("easy", "hard")),
            "context_ids": [f"d{at}" for at in range(len(chunks))],
        }
        nulled = {name for name in ("answer", "contexts", "truth", "slice_tag", "context_ids") if rng.random() < 0.15}
        rows.append({name: None if name in nulled else value for name, value in row.items()})
    left_out = {"id"} if named == "none" else set()
    left_out |= {name for name in ("truth", "slice_tag", "context_ids") if rng.random() < 0.3}
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def renamed(rows: Rows, rng: random.Random) -> Rows:
    """The rows under other names, their columns in another order, perhaps with columns that mean nothing to us."""
    names = {field: rng.choice(SPELT)(rng.choice(NAMES[field])) if rng.random() < 0.7 else field for field in rows[0]}
    more = rng.sample(["time", "Unnamed: 0", "score", "total_tokens"], rng.randrange(0, 3))
    order = rng.sample([*names, *more], len(names) + len(more))
    return [{names.get(name, name): row.get(name, 0.5) for name in order} for row in rows]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cells(rows: Rows, rng: random.Random) -> Rows:
    """Lists as programs print them into a table's cells."""
    way: Callable[[Any], str] = rng.choice(
        (json.dumps, str, lambda texts: str(np.array(texts, dtype=object)), lambda texts: repr(np.array(texts)))
    )
    return [{name: way(value) if isinstance(value, list) else value for name, value in row.items()} for row in rows]


def as_csv(folder: Path, rows: Rows, rng: random.Random) -> Path:
    delimiter, encoding = rng.choice(",;\t|"), rng.choice(("utf-8", "utf-8-sig", "utf-16"))
    path = folder / rng.choice(("a.csv", "a.csv", "a.tsv" if delimiter == "\t" else "a.txt"))
    frame = pandas.DataFrame(cells(rows, rng), dtype=object)
    frame.to_csv(
        path, sep=delimiter, encoding=encoding, index=rng.random() < 0.3, quoting=rng.choice((0, csv.QUOTE_ALL))
    )
    return path


def as_json(folder: Path, rows: Rows, rng: random.Random) -> Path:
    frame = pandas.DataFrame(rows, dtype=object)
    orient = rng.choice(("records", "columns", "index", "split", "table"))
    path = folder / "a.json"
    frame.to_json(path, orient=orient, force_ascii=rng.random() < 0.5, indent=rng.choice((None, 1)))
    return path


def as_lines(folder: Path, rows: Rows, rng: random.Random) -> Path:
    path = folder / rng.choice(("a.jsonl", "a.json", "a.ndjson"))
    pandas.DataFrame(rows, dtype=object).to_json(path, orient="records", lines=True)
    return path


def as_python_json(folder: Path, rows: Rows, rng: random.Random) -> Path:
    """As `json.dump` writes it, NaN where a field is null, in one of the arrangements that people choose."""
    holes = [{name: float("nan") if value is None else value for name, value in row.items()} for row in rows]
    columns = {name: [row[name] for row in holes] for name in holes[0]}
    content = rng.choice((holes, columns, {"data": holes}, {"results": holes}, {"examples": holes}))
    return write(folder / rng.choice(("a.json", "a.jsonl")), json.dumps(content, indent=rng.choice((None, 2))).encode())


def as_dataset_file(folder: Path, rows: Rows, rng: random.Random) -> Path:
    data = datasets.Dataset.from_list(rows)
    kind = rng.choice(("json", "csv", "parquet"))
    path = folder / f"a.{kind}"
    if kind == "csv":
        data = datasets.Dataset.from_list(cells(rows, rng))
    getattr(data, f"to_{kind}")(str(path))
    return path


def as_parquet(folder: Path, rows: Rows, rng: random.Random) -> Path:
    path = folder / rng.choice(("a.parquet", "a.feather"))
    frame = pandas.DataFrame(rows)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_feather(path)
    return path


def as_excel(folder: Path, rows: Rows, rng: random.Random) -> Path:
    pandas.DataFrame(cells(rows, rng), dtype=object).to_excel(folder / "a.xlsx", index=rng.random() < 0.5)
    return folder / "a.xlsx"


def as_packed(folder: Path, rows: Rows, rng: random.Random) -> Path:
    path = rng.choice((as_csv, as_lines, as_json))(folder, rows, rng)
    return write(path.with_name(f"{path.name}.gz"), gzip.compress(path.read_bytes()))


def as_frame(folder: Path, rows: Rows, rng: random.Random) -> Any:
    frame = pandas.DataFrame(rows)
    return frame.convert_dtypes() if rng.random() < 0.5 else frame


KINDS: dict[str, Callable[[Path, Rows, random.Random], Any]] = {
    "CSV": as_csv, "JSON of pandas": as_json, "JSON lines": as_lines, "JSON of Python": as_python_json,
    "files of datasets": as_dataset_file, "Parquet": as_parquet, "Excel": as_excel, "packed": as_packed,
    "frames": as_frame, "data sets": lambda folder, rows, rng: datasets.Dataset.from_list(rows),
}  # fmt: skip


def seen(cases: list[Case]) -> dict[str, tuple[Any, ...]]:
    """All that a scorer sees of each case, and what reports group by."""
    return {
        case.id: (
            case.question,
            list(case.answers.values()),
            case.contexts,
            case.truth,
            case.slice_tag,
            case.context_ids,
        )
        for case in cases
    }


def scores(cases: list[Case]) -> dict[tuple[str, str], Any]:
    scored = {}
    case_set = CaseSet(cases)
    for source in (CONTEXTS, TRUTH):
        for scorer in (RougeL(), RagZeval(ScriptedBackend(mock_reply), "paper", Sampling())):
            examples = [case_set.example(at, source) for at in range(len(cases))]
            scored |= {(f"{type(scorer).__name__}@{source}", one.id): one.values for one in scorer.score(examples)}
    return scored


def run(count: int, seed: int = 0) -> Findings:
    """Read `count` random files; an eighth of them are scored as well."""
    datasets.disable_progress_bars()
    findings = Findings("files", ["files", "read", "refused", "scored", "read otherwise", "scored otherwise"])
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = list(KINDS)[number % len(KINDS)]
        rows = some_rows(rng)
        shuffled = renamed(rng.sample(rows, len(rows)), rng)
        where, names = f"{kind} {number}", list(shuffled[0])
        with tempfile.TemporaryDirectory() as folder:
            source = KINDS[kind](Path(folder), shuffled, rng)
            write_rows(Path(folder) / "ours.jsonl", rows)
            wanted = read_cases(Path(folder) / "ours.jsonl", system="s").cases
            findings.counts["files"] += 1
            try:
                found = read_cases(source, system="s").cases
            except InputError as error:
                findings.counts.update({"refused": 1, f"refused: {kind}": 1})
                findings.note_if(not str(error), "no reason", where, "an error without a word")
                continue
        findings.counts["read"] += 1
        findings.note_if(seen(found) != seen(wanted), "read otherwise", where, f"{names}: {seen(found)}")
        if number % 8 == 0:
            findings.counts["scored"] += 1
            findings.note_if(scores(found) != scores(wanted), "scored otherwise", where, names)
        findings.tell(f"{number + 1:,} of {count:,}")
    return findings
