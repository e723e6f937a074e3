"""Load questions and passages from the nano world, or draw them from files of records in one pass.

Memory holds the drawn questions and a hash of each id, never whole files.
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
PARQUET_BATCH = 64  # rows in memory at once; the largest are pages of 10,000 tokens
NAMED = 3  # faults of each kind that are listed; the others are only counted

UNREADABLE, TOO_LONG, OTHER_SPLIT = "unreadable", "too_long", "other_split"
NO_FAULTS = (NO_LONG_ANSWER, TOO_LONG, OTHER_SPLIT)
HELD_OUT = frozenset((Path(__file__).parent / "held_out.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True)
class SourceQuestion:
    """A question, the passage that answers it, and the true answer as far as the source knows it.

    gold_answers: short answers that people wrote, each of them right; empty if the source has none. facts: the true
    facts of the nano world; None for other sources.
    """

    id: str
    question: str
    passage: str
    gold_answers: tuple[str, ...] = ()
    facts: Mapping[str, str] | None = None


@dataclass
class Tally:
    """Counts the records of a source that were read, and those left out, by reason.

    Some reasons are faults: unreadable (the rest of a file), not_json, unknown_layout, bad_field, bad_offset, empty,
    lone_surrogate, duplicate_id. The first faults of each kind are listed. With `strict`, the first fault raises
    InputError.

    The others are not faults: no_long_answer, other_split, and too_long. Only records that come up in the draw are
    checked for too_long.
    """

    strict: bool = False
    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, where: str, message: object) -> None:
        """Count a record that gives no question, and list it if it has a fault.

        Raises InputError for a fault if `strict`.
        """
        if reason not in NO_FAULTS:
            if self.strict:
                raise InputError(f"{where}: {message}")
            if len(self.named.setdefault(reason, [])) < NAMED:
                self.named[reason].append(f"{where}: {message}")
        self.left_out[reason] += 1

    @property
    def usable(self) -> int:
        """Number of records that give a question, those with a too long passage included."""
        return self.read - sum(n for reason, n in self.left_out.items() if reason not in (UNREADABLE, TOO_LONG))

    def summary(self) -> str:
        """Return one line with the records read and usable, and those left out by reason, most frequent first."""
        reasons = ", ".join(f"{reason} {n}" for reason, n in self.left_out.most_common()) or "none"
        return f"{self.read} records, {self.usable} usable; left out: {reasons}"

    def as_row(self) -> Row:
        """Return the counts for a run's manifest. File names have no folders there, which may be private."""
        faults = {reason: list(map(_without_folder, lines)) for reason, lines in self.named.items()}
        return {"read": self.read, "usable": self.usable, "left_out": dict(self.left_out), "first_faults": faults}


def _without_folder(line: str) -> str:
    where, colon, message = line.partition(": ")
    return f"{Path(where).name}{colon}{message}"


def load_questions(
    settings: Settings, tally: Tally, too_long: Callable[[SourceQuestion], bool]
) -> list[SourceQuestion]:
    """Draw `n_questions` questions from a source with `seed`. None: return all questions of the files, in file order.

    source: "nano", a file of records, a folder of files, or a glob. `split` selects people in the nano world, and
    questions in files (`split_of`). See `read_record` for the layouts and `passage`.
    tally: counts the records that are left out.
    too_long: called for each question that comes up in the draw. If it returns True, the next question is drawn
    instead.

    Questions are drawn in the order of a hash of seed and id, so the draw does not depend on files, layout or the order
    of records. A larger n_questions gives the same questions and then more.

    Raises InputError if a strict tally finds a fault (naming file and line), or if the source has no usable question or
    fewer than `n_questions`. The nano world is endless, so there None raises it too.
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
    """Yield (file:line, record) from all files. The rest of a file is left out where it cannot be read further."""
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
    """Yield (place, question) for the usable questions of the `split`, or for all if it is None.

    The place in the draw's order is 64 bits of a hash of seed and id. It also identifies duplicate ids.
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
    """Return the split of a question from a file: "dev" (9 of 100), "test" (20 of 100) or "train" (the rest).

    The split follows from a hash of the words in lower case, so it is the same in every file, layout and run. The
    questions of `held_out.txt` are samples that everybody may have seen. They are always "test", never trained on.
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
    """Return the `n_questions` questions with the first places, without those that are too long.

    `too_long` is called only for a question that would be drawn.
    """
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
    """Return the hex sha256 of the content of all questions, in order, to notice if the source changes later."""
    digest = hashlib.sha256()
    for question in questions:
        row = asdict(question)
        if not question.gold_answers:  # so that runs made before this field existed can be resumed
            del row["gold_answers"]
        digest.update(json.dumps(row, sort_keys=True).encode())
    return digest.hexdigest()
