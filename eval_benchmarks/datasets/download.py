"""`make data`: the public data sets, downloaded and checked.

`python -m eval_benchmarks.datasets.download data_dir=DIR` names another folder.

A download goes to a `.part` file, which a later run continues, and takes its place only when it has proved right.
"""

from __future__ import annotations

import gzip
import json
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, check_fields, file_sha256, json_lines, write_text
from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status

BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte
WIKIEVAL_ROWS = 50
WIKIEVAL_FIELDS = ("question", "answer", "context_v1", "poor_answer", "ungrounded_answer")

RAGCHECKER_LICENCE = "amazon-science/RAGChecker, Apache-2.0"
WIKIEVAL_LICENCE = "explodinggradients/WikiEval states no licence: for your own evaluation only, never redistribute it"
NQ_ROWS = 2655
NQ_FIELDS = {"question": str, "answers": list, "ctxs": list}
NQ_LICENCE = "nelson-liu/lost-in-the-middle, MIT; Natural Questions, CC BY-SA 3.0"
NATURAL_QUESTIONS = (
    "Natural Questions as a whole (for synthesis at paper scale, CC BY-SA 3.0) are not downloaded here: "
    "docs/paper-scale.md has the commands; synthesis reads its files as they are, in any public layout"
)


@dataclass(frozen=True)
class Download:
    """One file: where it goes in `data_dir`, where it comes from, its sha256 if we know it, what to read about it.

    `convert` turns the bytes that came into the text to keep; it raises InputError if they are not what they should be.
    """

    path: str
    source: str  # key under `download` in configs/bench.yaml: the server
    route: str
    sha256: str | None
    licence: str
    convert: Callable[[Path], str] | None = None


def _wikieval_jsonl(parquet: Path) -> str:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(parquet).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a parquet file: {str(error).splitlines()[0]}") from error
    absent = [field for field in WIKIEVAL_FIELDS if any(row.get(field) is None for row in rows)]
    if len(rows) != WIKIEVAL_ROWS or absent:
        lacking = f" without {', '.join(absent)}" if absent else ""
        raise InputError(f"expected {WIKIEVAL_ROWS} rows, found {len(rows)}{lacking}")
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def _qrels(plain: Path) -> str:
    from rag_zeval.audit.qrels import read_qrels  # brings numpy

    read_qrels(plain)
    return plain.read_text(encoding="utf-8")


def _nq_jsonl(packed: Path) -> str:
    try:
        text = gzip.decompress(packed.read_bytes()).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"not a gzip file of text: {error}") from error
    _check_rows(text.splitlines(), NQ_ROWS, NQ_FIELDS)
    return text


def _check_rows(lines: Sequence[str], rows: int | None, required: FieldTypes) -> None:
    for number, row in json_lines(lines, partial(check_fields, required=required)):
        if isinstance(row, InputError):
            raise InputError(f"line {number}: {row}") from row
    if len(lines) != rows:
        raise InputError(f"expected {rows} rows, found {len(lines)}")


RAGCHECKER = {  # file -> sha256
    "human_labeled_data.json": "42651629afc007396a709c89e89ada3b587e0bcc26246c951225866715e265ce",
    "baseline_ragchecker.json": "1fce14cc54bf276c3ed2bb48976ba42e85159651b64c181bc19795152db6e3d6",
}
RAGCHECKER_ROUTE = "/amazon-science/RAGChecker/main/data/meta_evaluation"
WIKIEVAL_ROUTE = "/datasets/explodinggradients/WikiEval/resolve/main/data/train-00000-of-00001-385c01e94624e9b7.parquet"
NQ_ROUTE = "/nelson-liu/lost-in-the-middle/main/qa_data/nq-open-oracle.jsonl.gz"
# of one commit, whose files stay as they are: people's grades, and UMBRELA's of the same documents
QRELS_ROUTE = "/castorini/anserini-tools/5d4ba9bcad1b9cb2cd14ba91eefe0a3425b8ca5d/qrels"
QRELS = ("qrels.rag25.test.txt", "qrels.rag25.test-umbrela2.txt")
QRELS_LICENCE = "TREC RAG 2025, from castorini/anserini-tools; we found no licence stated: do not redistribute"
DOWNLOADS = (
    *(
        Download(f"ragchecker_meta/{name}", "github", f"{RAGCHECKER_ROUTE}/{name}", sha256, RAGCHECKER_LICENCE)
        for name, sha256 in RAGCHECKER.items()
    ),
    Download("wikieval/wikieval.jsonl", "hub", WIKIEVAL_ROUTE, None, WIKIEVAL_LICENCE, _wikieval_jsonl),
    Download("natural_questions/nq-open-oracle.jsonl", "github", NQ_ROUTE, None, NQ_LICENCE, _nq_jsonl),
    *(Download(f"trec/{name}", "github", f"{QRELS_ROUTE}/{name}", None, QRELS_LICENCE, _qrels) for name in QRELS),
)


def _jsonl_of(rows: int | None, file: Path) -> str:
    """The text of a JSONL file with so many rows."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    lines = text.removesuffix("\n").split("\n")  # not splitlines: texts may hold other ends of lines as they are
    _check_rows(lines, rows, {})
    return text


def labelled_downloads() -> Iterator[Download]:
    """The files of the open sets of labelled texts, as their descriptions name them."""
    from eval_benchmarks.datasets.labelled.description import descriptions  # brings numpy

    for _, description in descriptions():
        for file in description.files:
            convert = None if file.sha256 else partial(_jsonl_of, file.rows)
            yield Download(file.path, file.server, file.route, file.sha256, description.licence, convert)


def gated() -> Iterator[str]:
    """A line for each set of labelled texts that people must get themselves."""
    from eval_benchmarks.datasets.labelled.description import descriptions

    for name, description in descriptions():
        if description.get is not None:
            yield f"{name} is not downloaded here ({description.licence}): {description.get} ({description.test.files})"


def get(download: Download, server: str, data_dir: Path) -> str:
    """Bring one file into `data_dir`; "downloaded" or "already there". Raises InputError (a wrong file is removed)."""
    target = data_dir / download.path
    if target.is_file() and (download.convert or file_sha256(target) == download.sha256):
        return "already there"
    part = target.with_name(Path(download.route).name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    url = server.rstrip("/") + download.route
    _fetch(url, part)
    sha256 = file_sha256(part)
    if download.sha256 and sha256 != download.sha256:
        part.unlink()
        raise InputError(f"{url}: sha256 is {sha256}, expected {download.sha256}; the file was removed")
    if download.convert is None:
        part.replace(target)
        return "downloaded, sha256 as expected"
    try:
        write_text(target, download.convert(part))
    except InputError as error:
        part.unlink()
        raise InputError(f"{url}: {error}; the file was removed") from error
    part.unlink()
    return f"downloaded, content checked (no checksum known; sha256 {sha256})"


def _fetch(url: str, part: Path) -> None:
    """Write what stands at `url` to `part`, going on after the bytes that are there if the server can."""
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply, Progress(*columns) as progress:
            have = have if reply.status == 206 else 0  # 200: the server starts at the beginning
            length = reply.headers.get("Content-Length")
            total = have + int(length) if length else None
            task = progress.add_task(part.name.removesuffix(".part"), total=total, completed=have)
            with open(part, "ab" if have else "wb") as file:
                while block := reply.read(BLOCK):
                    file.write(block)
                    progress.advance(task, len(block))
    except urllib.error.HTTPError as error:
        if error.code == 416:  # what is there is no beginning of what the server has
            part.unlink()
            return _fetch(url, part)
        raise InputError(f"{url}: cannot be downloaded: HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise InputError(f"{url}: cannot be downloaded: {getattr(error, 'reason', None) or error}") from error
    if total is not None and part.stat().st_size != total:
        raise InputError(f"{url}: the connection ended early; run the same command again to resume")


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 done, 2 after a line on stderr for each file that could not be had."""
    config = load_config("bench", argv)
    from eval_benchmarks.bench_settings import DownloadSettings, read_settings  # after --help: brings numpy

    settings = read_settings(config, DownloadSettings)
    data_dir, status = Path(settings.data_dir), 0
    for download in (*DOWNLOADS, *labelled_downloads()):
        try:
            done = get(download, getattr(settings.download, download.source), data_dir)
            print(f"{data_dir / download.path}: {done} ({download.licence})")
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
    print(*gated(), NATURAL_QUESTIONS, sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
