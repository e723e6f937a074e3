"""`rag-zeval collect` asks a running RAG system questions and stores its answers."""

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import QuestionMap, check_files, read_names
from rag_zeval.errors import InputError


def collect(
    questions: Annotated[
        Path,
        typer.Argument(
            help="A file with a question in each row, and optionally id, truth, slice_tag and gold_chunk_ids: JSONL, "
            "CSV, Excel, or another format that evaluate reads."
        ),
    ],
    url: Annotated[str, typer.Option(help="The URL of your system. Each question is one request to it.")],
    out: Annotated[Path, typer.Option(help="The JSONL file for the answers. `evaluate` reads it.")],
    answer: Annotated[
        str, typer.Option(help="The JSONPath of the answer in the system's response, such as '$.answer'.")
    ],
    contexts: Annotated[
        str | None,
        typer.Option(help="The JSONPath of the retrieved contexts, such as '$.docs[*].text'. Default: none."),
    ] = None,
    context_ids: Annotated[
        str | None, typer.Option(help="The JSONPath of the contexts' ids, such as '$.docs[*].id'. Default: none.")
    ] = None,
    body: Annotated[
        Path | None,
        typer.Option(help="A JSON file with the request that your system expects. Default: only the question."),
    ] = None,
    question_field: Annotated[
        str,
        typer.Option(
            help="The field of the request that holds the question, or the JSONPath of a place in --body, such as "
            "'$.messages[0].content'."
        ),
    ] = "question",
    constant: Annotated[
        list[str] | None,
        typer.Option(
            help="A value that every request has, as FIELD=VALUE or JSONPATH=VALUE, such as '$.search.limit=5'. "
            "Repeat the option for several. Default: none."
        ),
    ] = None,
    get: Annotated[
        bool, typer.Option("--get", help="Send the fields as parameters of the URL, by GET. Default: as JSON, by POST.")
    ] = False,
    map: QuestionMap = [],  # noqa: B006 (typer reads it)
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="A request header, as NAME=VARIABLE. Its value is read from the environment variable VARIABLE. "
            "Default: none."
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="The name of the system, for comparisons. Default: none.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="The maximum number of requests that are open at once.")] = 4,
    timeout: Annotated[float, typer.Option(help="How many seconds to wait for an answer.")] = 60.0,
) -> None:
    """Ask your running RAG system every question, and store its answers, retrieved contexts and latency.

    Rows are written as they finish. Run the same command again to resume: it skips questions that have an answer and
    retries those that failed.

    The exit status is 0 if some questions have an answer, 1 if none has, and 2 if nothing could be asked.
    """
    from rag_zeval.cases.case import never_match
    from rag_zeval.collect.answers import AnswerPaths, System, questions_of, read_question_columns, still_to_ask
    from rag_zeval.collect.latencies import print_latencies
    from rag_zeval.collect.request_body import RequestBody
    from rag_zeval.files import read_json
    from rag_zeval.models.as_finished import as_finished
    from rag_zeval.progress import SHOWN, Progress
    from rag_zeval.rows import RowWriter

    if not 0 < timeout < math.inf:
        raise InputError(f"--timeout is {timeout:g}, but must be more than 0 seconds")
    check_files([questions, body], ("--out", out))
    read = read_question_columns(questions, read_names(map))
    asked = questions_of(read)
    headers = _pairs(
        "--header", header, "NAME=VARIABLE, where VARIABLE is an environment variable that holds the value"
    )
    constants = _pairs("--constant", constant, "FIELD=VALUE")
    paths = AnswerPaths(answer, contexts, context_ids)
    request = RequestBody(question_field, constants, None if body is None else read_json(body), get)
    source = System(url, paths, request=request, headers=headers, timeout=timeout)
    made_by = {"system": system, "collected": source.settings}
    wanted = [name for name in ("contexts", "context_ids") if paths.paths[name] is not None]
    lacking: Counter[str] = Counter()
    first = ""
    with RowWriter(out) as rows:
        todo = still_to_ask(rows, asked, made_by)
        print(read, file=sys.stderr)
        with Progress() as progress, progress.job("asking", len(todo)) as job:
            for _, row in as_finished(source.ask, todo, concurrency):
                rows.append({**row, **{name: value for name, value in made_by.items() if value is not None}})
                if row["answer"] is None:
                    first = first or f" ({row['status'].removeprefix('failed: ')[:SHOWN]})"
                    lacking["failed" + first] += 1
                else:
                    lacking.update(f"{name} empty" for name in wanted if not row[name])
                job.advance(", ".join(f"{n} {what}" for what, n in lacking.items()))  # a wrong option shows at once
        answers = list(rows.done.values())
    print_latencies(answers)
    print(f"answers: {out}")
    answered = [row for row in answers if row["status"] == "ok"]
    for name in wanted:
        if answered and not any(row.get(name) for row in answered):
            option = f"--{name.replace('_', '-')} {paths.paths[name]}"
            print(f"note: {option} found nothing in any response", file=sys.stderr)
    chunks = [(row.get("context_ids") or (), row.get("gold_chunk_ids") or ()) for row in answered]
    if any(ids for ids, _ in chunks) and (note := never_match(chunks)):
        print(f"note: {note}", file=sys.stderr)
    if failed := [row["status"] for row in answers if row["status"].startswith("failed")]:
        print(f"{len(failed)} of {len(asked)} questions have no answer ({failed[0]}).", file=sys.stderr)
        print("Run the same command again to retry them", file=sys.stderr)
    if len(failed) == len(asked):
        raise typer.Exit(1)


def _pairs(option: str, words: list[str] | None, form: str) -> dict[str, str]:
    """Return `["a=1"]` as `{"a": "1"}`. Raises InputError for another form and for a duplicate name."""
    pairs: dict[str, str] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InputError(f"{option}: write {form}")
        if name in pairs:
            raise InputError(f"{option}: '{name}' is given twice; remove one of the two")
        pairs[name] = value
    return pairs
