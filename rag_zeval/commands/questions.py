"""`rag-zeval questions` makes a test set from documents; `rag-zeval chunks` writes the chunks that it asks about."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_zeval.commands.arguments import (
    ConnectTimeout,
    EmbeddingsKeyEnv,
    ExtraBody,
    KeyEnv,
    Timeout,
    check_files,
    read_extra_body,
)
from rag_zeval.errors import InputError
from rag_zeval.models.open import SPECS, open_backend, open_embedder
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import counted, one_line

if TYPE_CHECKING:
    from rag_zeval.documents.chunks import Chunk

Documents = Annotated[
    list[Path], typer.Argument(help="Files or folders with text, Markdown, HTML, PDF or Word documents (.docx).")
]


def chunks(
    docs: Documents, out: Annotated[Path, typer.Option(help="The CSV file for the chunks: id, document and text.")]
) -> None:
    """Split your documents into chunks, and write them to a CSV file.

    These are the chunks that `rag-zeval questions` asks about. The command first lists the files, pages and links that
    it cannot read. Chunks are whole paragraphs, at most 200 words and punctuation marks each. Longer ones are split.

    An apostrophe stands before any text that a spreadsheet program could take for a formula.
    """
    from rag_zeval.csv_files import sheet_text
    from rag_zeval.files import write_text

    _check_files(docs, ("--out", out))
    rows = [(chunk.id, chunk.document, chunk.text) for chunk in _read(docs)]
    write_text(out, sheet_text(("id", "document", "text"), rows))
    print(f"chunks: {out}")


def _check_files(docs: Sequence[Path], *written: tuple[str, Path | None]) -> None:
    """Raise InputError as `check_files`, and if a file to write would be one of the documents of a folder."""
    from rag_zeval.documents.formats import SUFFIXES

    check_files(docs, *written)
    for name, path in written:
        for folder in filter(Path.is_dir, docs):
            if path and path.suffix.lower() in SUFFIXES and path.resolve().is_relative_to(folder.resolve()):
                raise InputError(f"{name} {path} would be one of the documents in {folder}: name another file")


def _read(docs: list[Path]) -> "list[Chunk]":
    """Return the chunks of the documents. Print what was read, and what could not be read."""
    from rag_zeval.documents.chunks import split_document
    from rag_zeval.documents.documents import read_documents

    reading = read_documents(docs)
    for line in reading.unread():
        print(line, file=sys.stderr)
    found = [chunk for document in reading.documents for chunk in split_document(document)]
    characters = sum(len(document.text) for document in reading.documents)
    sizes = {"document": len(reading.documents), "chunk": len(found), "character": characters}
    print(", ".join(counted(n, noun) for noun, n in sizes.items()), flush=True)
    firsts: dict[str, str] = {}
    if twins := [chunk for chunk in found if firsts.setdefault(chunk.text, chunk.id) != chunk.id]:
        shown = f"{one_line(twins[0].id)} and {one_line(firsts[twins[0].text])}"
        print(
            f"note: {counted(len(twins), 'chunk')} with the text of an earlier chunk, such as {shown}. Only the chunk "
            "that a question was written about counts as its gold chunk; to measure retrieval, remove the copies",
            file=sys.stderr,
        )
    return found


def questions(
    docs: Documents,
    model: Annotated[str, typer.Option(help=f"The model that writes the questions: {SPECS}.")],
    out: Annotated[Path, typer.Option(help="The JSONL file for the questions.")],
    n: Annotated[int | None, typer.Option(min=1, help="How many questions to write. Default: 50.")] = None,
    per_chunk: Annotated[
        int | None,
        typer.Option(min=1, help="How many questions to write about each chunk, at most. Use it instead of --n."),
    ] = None,
    kinds: Annotated[
        str, typer.Option(help="The kinds of questions, separated by commas, in equal parts.")
    ] = "easy,multi-hop,unanswerable",
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="The model that embeds questions to find duplicates: FOLDER or openai:MODEL@URL. "
            "Default: duplicates are found by their words."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="An SQLite file that keeps replies, so that no reply is paid for twice. Default: none."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed for the order in which chunks are used.")] = 0,
    timeout: Timeout = 600.0,
    connect_timeout: ConnectTimeout = 10.0,
    extra_body: ExtraBody = None,
    api_key_env: KeyEnv = None,
    embeddings_key_env: EmbeddingsKeyEnv = None,
) -> None:
    """Write a test set from your documents: questions, their ground truth and the snippets that prove it.

    The command first lists the files, pages and links that it cannot read. Then it splits the documents into chunks of
    whole paragraphs, at most 200 words and punctuation marks each. Longer paragraphs are split.

    It drops a question if its snippet does not occur in the chunk word for word, or if it is a duplicate. It drops an
    unanswerable question if the model finds an answer in the chunk, or in the four chunks most like the question.

    With --per-chunk, every chunk gets that many questions, equally many of each kind. A chunk that has too few facts
    gets fewer.

    Rows are written as they finish. Run the same command again to resume.
    """
    from rag_zeval.documents.questions import KINDS, QuestionWriter, quotas
    from rag_zeval.models.cache import CachedBackend, ReplyCache
    from rag_zeval.models.embeddings import CachedEmbedder
    from rag_zeval.progress import SHOWN, Progress
    from rag_zeval.rows import RowWriter

    names = [name.strip() for name in kinds.split(",")]
    for name in names:
        if name not in KINDS or names.count(name) > 1:
            raise InputError(f"--kinds: '{name}' must be one of {', '.join(KINDS)}, and may be given only once")
    if n and per_chunk:
        raise InputError("--n and --per-chunk both say how many questions to write; remove one")
    _check_files(docs, ("--out", out), ("--cache", cache))
    chunks = _read(docs)
    each = quotas(per_chunk, names) if per_chunk else {}
    wanted = {kind: number * len(chunks) for kind, number in each.items()} or quotas(n or 50, names)
    total = sum(wanted.values())
    calls: dict[str, Any] = {"timeout": timeout, "connect_timeout": connect_timeout}
    backend = open_backend(model, **calls, api_key_env=api_key_env, extra_body=read_extra_body(extra_body))
    embedder = open_embedder(embeddings, **calls, api_key_env=embeddings_key_env) if embeddings is not None else None
    replies = ReplyCache(cache) if cache is not None else None
    if replies is not None:
        backend = CachedBackend(backend, replies)
        embedder = CachedEmbedder(embedder, replies) if embedder is not None else None
    dropped: Counter[str] = Counter()
    failed: list[str] = []
    with replies or nullcontext(), RowWriter(out) as rows:
        outcomes = QuestionWriter(chunks, backend, embedder, seed).write(wanted, rows, each)
        with Progress() as progress, progress.job("writing", total, len(rows.done)) as job:
            for outcome in outcomes:
                if outcome.failed:
                    failed.append(outcome.reason)
                elif outcome.row is None:
                    dropped[outcome.reason] += 1
                notes = [f"{dropped.total()} dropped"] if dropped else []
                notes += [f"{len(failed)} failed ({failed[0][:SHOWN]})"] if failed else []
                (job.tell if outcome.row is None else job.advance)(", ".join(notes))
        written = Counter(row["slice_tag"] for row in rows.done.values())
    if failed:  # every failed reply has its own reason
        dropped[f"reply could not be read (first: {failed[0]})"] = len(failed)
    counts = [(kind, f"{written[kind]} of {number}") for kind, number in wanted.items()]
    print_framed(("", ""), [*counts, *((f"dropped: {reason}", str(count)) for reason, count in dropped.items())])
    print(f"questions: {out}")
    once = "" if failed else " (each pair of chunks is asked about once)"
    short = [kind + once * (KINDS[kind].chunks > 1) for kind in wanted if written[kind] < wanted[kind]]
    if short and (failed or not per_chunk):
        others = "Add documents, ask for fewer questions, or try another model"
        way_out = "Run the same command again to retry" if failed else others
        print(f"error: got fewer than {total} questions; short of: {', '.join(short)}. {way_out}", file=sys.stderr)
        raise typer.Exit(1)
