"""Where questions and passages come from: the nano world, or files of records, read in one pass and drawn from.

Memory holds the questions drawn and a hash of each id seen, never the files.
"""

import glob
import gzip
import hashlib
import heapq
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import Row, json_lines
from rag_zeval.stages import world
from synthesize.natural_questions import HUB_COLUMNS, NO_LONG_ANSWER, BadRecord, read_record
from synthesize.settings import NANO, Settings

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
PARQUET_BATCH = 64  # rows in memory at once: pages of 10,000 tokens are the largest
NAMED = 3  # faults of a kind that are named, beside the count of all

UNREADABLE, TOO_LONG, OTHER_SPLIT = "unreadable", "too_long", "other_split"
NO_FAULTS = (NO_LONG_ANSWER, TOO_LONG, OTHER_SPLIT)
HELD_OUT = frozenset((Path(__file__).parent / "held_out.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True)
class SourceQuestion:
    """A question with the passage that answers it, and what its source knows of the truth.

    gold_answers: short answers that people gave, any of them right; empty where the source has none. facts: the truth
    of the nano world, else None.
    """

    id: str
    question: str
    passage: str
    gold_answers: tuple[str, ...] = ()
    facts: Mapping[str, str] | None = None


@dataclass
class Tally:
    """What became of the records of a source: how many were read, and left out for which reason.

    Faults: unreadable (the rest of a file), not_json, unknown_layout, bad_field, bad_offset, empty, lone_surrogate,
    duplicate_id; the first of each kind are named. With `strict` the first fault is an InputError. No faults, but the
    nature of the data: no_long_answer; other_split; too_long (of the records that came up in the draw).
    """

    strict: bool = False
    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, where: str, message: object) -> None:
        """Count a record that gives no question; one with a fault is named as well, or is an InputError if `strict`."""
        if reason not in NO_FAULTS:
            if self.strict:
                raise InputError(f"{where}: {message}")
            if len(self.named.setdefault(reason, [])) < NAMED:
                self.named[reason].append(f"{where}: {message}")
        self.left_out[reason] += 1

    @property
    def usable(self) -> int:
        """Records that give a question, however long its passage."""
        return self.read - sum(n for reason, n in self.left_out.items() if reason not in (UNREADABLE, TOO_LONG))

    def summary(self) -> str:
        """One line: records read and usable, and those left out by reason, most frequent first."""
        reasons = ", ".join(f"{reason} {n}" for reason, n in self.left_out.most_common()) or "none"
        return f"{self.read} records, {self.usable} usable; left out: {reasons}"

    def as_row(self) -> Row:
        """For a run's manifest, which names no folder that the environment may have named."""
        faults = {reason: list(map(_without_folder, lines)) for reason, lines in self.named.items()}
        return {"read": self.read, "usable": self.usable, "left_out": dict(self.left_out), "first_faults": faults}


def _without_folder(line: str) -> str:
    where, colon, message = line.partition(": ")
    return f"{Path(where).name}{colon}{message}"


def load_questions(
    settings: Settings, tally: Tally, too_long: Callable[[SourceQuestion], bool]
) -> list[SourceQuestion]:
    """The first `n_questions` of a source in an order drawn with `seed`; None takes all of the files, in their order.

    source: "nano" (`split` says whose people), a file of records, a folder of files, or a glob; layouts and `passage`
    as `read_record` has them; with a `split` only its questions (`split_of`). The order is that of a hash of seed and
    id: which questions are drawn depends on these alone, not on files, layout or their order in them, and
    n_questions + 1 draws one more after the same ones.
    too_long: asked of each record that comes up in the draw; one that is gives its place to the next.
    tally: where records left out are counted.

    Raises InputError when a strict tally meets a fault (naming file and line), when the source holds nothing usable or
    less than `n_questions`.
    """
    source, n_questions, seed = settings.source, settings.n_questions, settings.seed
    if source == NANO:
        if n_questions is None:
            raise InputError("config: key 'n_questions' must be a number for the nano world: it has no end")
        asked = world.questions(settings.split or "train", n_questions, seed)
        return [SourceQuestion(q.id, q.question, q.passage, facts=q.facts) for q in asked]
    usable = _usable(_records(_files(source), tally), settings, tally)
    questions = [q for _, q in usable] if n_questions is None else _draw(usable, n_questions, too_long, tally)
    if not tally.usable:
        first = next((f"; the first problem: {named[0]}" for named in tally.named.values()), "")
        raise InputError(f"{source}: holds no questions ({tally.summary()}{first})")
    if n_questions is not None and n_questions > len(questions):
        raise InputError(
            f"{source}: holds {len(questions)} questions, fewer than n_questions={n_questions} ({tally.summary()})"
        )
    return questions


def _files(source: str) -> list[Path]:
    path = Path(source)
    if path.exists() and not path.is_dir():
        return [path]
    candidates = path.iterdir() if path.is_dir() else map(Path, glob.glob(source, recursive=True))
    files = sorted(file for file in candidates if file.name.endswith(SUFFIXES) and file.is_file())
    if not files:
        raise InputError(f"{source}: no such file, and no file that ends in {', '.join(SUFFIXES)}")
    return files


def _records(files: Iterable[Path], tally: Tally) -> Iterator[tuple[str, Row]]:
    """(file:line, record), each file up to where it cannot be read further."""
    for file in files:
        try:
            yield from _parquet_rows(file, tally) if file.suffix == ".parquet" else _json_rows(file, tally)
        except (OSError, EOFError, zlib.error) as error:
            tally.leave_out(UNREADABLE, str(file), f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _json_rows(file: Path, tally: Tally) -> Iterator[tuple[str, Row]]:
    with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as lines:
        for number, row in json_lines(lines, dict):
            tally.read += 1
            if isinstance(row, InputError):
                tally.leave_out("not_json", f"{file}:{number}", row)
            else:
                yield f"{file}:{number}", row


def _parquet_rows(file: Path, tally: Tally) -> Iterator[tuple[str, Row]]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            columns = HUB_COLUMNS if {"document", "annotations"} <= set(table.schema_arrow.names) else None
            batches = table.iter_batches(PARQUET_BATCH, columns=columns)
            for number, row in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
                tally.read += 1
                yield f"{file}:{number}", row
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise OSError(str(error).splitlines()[0]) from error


def _usable(
    records: Iterable[tuple[str, Row]], settings: Settings, tally: Tally
) -> Iterator[tuple[int, SourceQuestion]]:
    """Each question with its place in the order of the draw: 64 bits of a hash, which tell its id from others too.

    With a `split` only its questions.
    """
    seen: set[int] = set()
    for where, record in records:
        try:
            question = SourceQuestion(*read_record(record, settings.passage))
            _check_texts(question)
            place = int.from_bytes(hashlib.sha256(f"{settings.seed}:{question.id}".encode()).digest()[:8], "big")
            if place in seen:
                raise BadRecord("duplicate_id", f"duplicate id {question.id!r}")
        except InputError as error:
            tally.leave_out(error.reason if isinstance(error, BadRecord) else "bad_field", where, error)
        else:
            seen.add(place)
            if settings.split is None or split_of(question.question) == settings.split:
                yield place, question
            else:
                tally.left_out[OTHER_SPLIT] += 1


def split_of(question: str) -> str:
    """Where a question of a file belongs: "dev" (9 of 100), "test" (20 of 100) or "train".

    By a hash of its words in lower case, so it is the same in every file, layout and run. The questions of
    `held_out.txt`, samples that everybody may have seen, are never trained on.
    """
    digest = hashlib.sha256(" ".join(re.findall(r"\w+", question.casefold())).encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    if digest.hex()[:16] in HELD_OUT:
        return "test"
    return "dev" if share < 0.09 else "test" if share < 0.29 else "train"


def _check_texts(question: SourceQuestion) -> None:
    for name in ("id", "question", "passage"):
        text: str = getattr(question, name)
        if not text.strip():
            raise BadRecord("empty", f"field '{name}' is empty")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = f"field '{name}' holds half a character (a lone surrogate)"
            raise BadRecord("lone_surrogate", message) from error


def _draw(
    placed: Iterable[tuple[int, SourceQuestion]],
    n_questions: int,
    too_long: Callable[[SourceQuestion], bool],
    tally: Tally,
) -> list[SourceQuestion]:
    """The `n_questions` first places among questions that are not too long: only what would be drawn is measured."""
    drawn: list[tuple[int, SourceQuestion]] = []  # a heap with the last place on top
    for place, question in placed:
        if len(drawn) == n_questions and place > -drawn[0][0]:
            continue
        if too_long(question):
            tally.left_out[TOO_LONG] += 1
        elif len(drawn) < n_questions:
            heapq.heappush(drawn, (-place, question))
        else:
            heapq.heapreplace(drawn, (-place, question))
    return [question for _, question in sorted(drawn, reverse=True)]


def questions_sha256(questions: list[SourceQuestion]) -> str:
    """Hex sha256 of the questions themselves, in order: what the file said when the run began."""
    digest = hashlib.sha256()
    for question in questions:
        row = asdict(question)
        if not question.gold_answers:  # so that runs from before there were any can be resumed
            del row["gold_answers"]
        digest.update(json.dumps(row, sort_keys=True).encode())
    return digest.hexdigest()
