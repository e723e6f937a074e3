"""The description of a set of labelled texts: where its data are, its columns, and which rows count.

The descriptions of this folder are `sets/NAME.yaml`. Any other file of that form can be named by its path, as in
`benchmarks=[my-set.yaml]`. Its data are read from `data_dir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from eval_benchmarks.benchmark import FETCH, Described, PublishedValues
from rag_zeval.files import locate
from rag_zeval.judge.schema import LETTERS
from rag_zeval.stages.config import Text, check_settings
from rag_zeval.yaml_file import read_yaml

SETS = Path(__file__).parent / "sets"
SUFFIX = ".yaml"
# Most texts in one call. Claims are short. Answers: as many as the judge is trained on (the paper's curriculum).
PER_CALL = {"claims": len(LETTERS), "answers": 4}
MACRO, POOLED = "macro", "pooled"  # averages over data sets; a metric's name has them in the place of a data set
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
LABELS = 'labels in quotation marks with true or false, such as {"1": true, "0": false}'


class DataFile(Described):
    """A file that `make data` downloads: where it goes in `data_dir`, and where it comes from.

    server: a key under `download` in configs/bench.yaml. licence: None means that of its set.
    sha256: None if unknown. Then rows and fields say what the file must have, and form is that of the download. Its
    content is stored as JSON lines, except for qrels, which stay as they are.
    """

    path: Text
    server: Literal["github", "hub"]
    route: Text
    licence: Text | None = None
    sha256: str | None = None
    rows: Count | None = None
    fields: dict[str, Literal["text", "list"]] = {}
    form: Literal["jsonl", "parquet", "gzip", "qrels"] = "jsonl"


class SplitFiles(Described):
    """The rows of a part of a set.

    files: a pattern under `data_dir`, or an absolute one (JSONL, CSV, TSV or Parquet). part: values by which rows
    belong to this part. where: values that they must have to count. documents: how many of each data set count, the
    first ones; None means all. rows: their number, for a dry run without the data.
    """

    files: Text
    part: dict[str, str] = {}
    where: dict[str, str] = {}
    documents: Count | None = None
    rows: Count | None = None

    def excludes(self, other: SplitFiles) -> bool:
        """Whether no row can belong to both parts, even if a file does: `part` has another value for some field."""
        return any(self.part.get(field, value) != value for field, value in other.part.items())


class Columns(Described):
    """The names of the columns of a row with a label.

    Except for the label, a column may hold a text or a list of texts.
    """

    document: Text
    text: Text
    label: Text
    data_set: Text | None = None
    question: Text | None = None


class Reading(Described):
    """A way to read the labels: which of them say that a text is supported.

    labels: a label that is not named leaves its text out. ignored: marks of spans that do not count. says: explains the
    reading to readers of the tables.
    """

    says: Text
    name: Annotated[str, Field(pattern=r"^\w*$")] = ""
    labels: Annotated[dict[str, bool], Field(description=LABELS)] = {}
    ignored: list[Text] = []


class Description(Described):
    """A set of labelled claims or answers.

    texts: what is judged. get: how people get the data if `make data` does not download them.
    question: of all texts. questions: of those of a data set, by its name.
    sources: the file with the documents, in RAGTruth's layout, in which the label of an answer is its spans. Any other
    set has `columns`.
    dev: the part that thresholds are tuned on.
    averages: over its data sets. macro is the mean of the values of those with both classes; pooled is the value over
    all texts together.
    """

    texts: Literal["claims", "answers"]
    licence: Text
    get: str | None = None
    files: list[DataFile] = []
    test: SplitFiles
    dev: SplitFiles | None = None
    columns: Columns | None = None
    sources: Text | None = None
    question: str = ""
    questions: dict[str, str] = {}
    readings: Annotated[list[Reading], Field(min_length=1)]
    averages: list[Literal["macro", "pooled"]] = []
    published: list[PublishedValues] = []

    @model_validator(mode="after")
    def _one_layout(self) -> Description:
        if (self.columns is None) == (self.sources is None):
            raise ValueError("columns: a set has either columns or sources")
        if self.columns and not all(reading.labels for reading in self.readings):
            raise ValueError(f"readings: each must have {LABELS}")
        if self.averages and self.columns and self.columns.data_set is None:
            raise ValueError("averages: they are over data sets; name the column of their names, columns.data_set")
        names = [reading.name for reading in self.readings]
        if len(set(names)) < len(names) or names[0]:
            raise ValueError("readings: the first has no name, the others have one each")
        return self

    @property
    def per_call(self) -> int:
        return PER_CALL[self.texts]

    @property
    def how_to_get(self) -> str:
        return self.get or (FETCH if self.files else "put it there")


def set_names() -> list[str]:
    """Return the names of the sets in this folder, in alphabetical order."""
    return sorted(path.stem for path in SETS.glob(f"*{SUFFIX}"))


def read_description(name: str) -> Description:
    """Read the description of a set in this folder, or of the set in the file of that path.

    Raises InputError, naming the file and the key, if it is not a valid description.
    """
    return _read(Path(name) if name.endswith(SUFFIX) else SETS / f"{name}{SUFFIX}")


@cache
def _read(path: Path) -> Description:
    values = read_yaml(path)
    with locate(path):
        return check_settings(Description, values)


def descriptions() -> Iterator[tuple[str, Description]]:
    """Return the names and descriptions of the sets in this folder."""
    return ((name, read_description(name)) for name in set_names())
