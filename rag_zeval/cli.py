"""`rag-zeval`: score a RAG system's answers from the command line."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rag_zeval.errors import InputError, exit_status
from rag_zeval.models.language_model import SPECS, Sampling, can_constrain, open_backend

if TYPE_CHECKING:
    from rich.progress import Task

    from rag_zeval.judge.evaluator import Evaluator, Example
    from rag_zeval.results import ResultRows, Summary
    from rag_zeval.rows import RowWriter

EXAMPLE = "openai:qwen2.5-7b-instruct@http://localhost:8000/v1"


class _Commands(TyperGroup):
    """Its help lists the scorers, which are looked up then and not for every command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rag_zeval.scorers.registry import SCORERS

        self.epilog = f"Scorers (`rag-zeval scorers` says what each needs): {', '.join(SCORERS)}."
        super().format_help(ctx, formatter)


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

ModelSpec = Annotated[str | None, typer.Option(help=f"The judge: {SPECS}.")]
VariantName = Annotated[str | None, typer.Option(help="Prompt variant: paper, verdict-last, compact, no-evidence.")]
OutPath = Annotated[Path | None, typer.Option(help="Result rows (default: INPUT's name + .results.jsonl, here).")]
HtmlPath = Annotated[Path | None, typer.Option(help="Also write a report that shows every claim.")]
CachePath = Annotated[Path | None, typer.Option(help="SQLite file that keeps replies, to never pay twice.")]
Trials = Annotated[int, typer.Option(min=1, help="How often to judge each row (samples differ).")]
Concurrency = Annotated[int, typer.Option(min=1, help="Open requests at once (endpoints only).")]
Timeout = Annotated[float, typer.Option(help="Seconds for a reply, retries included (endpoints only).")]
ConnectTimeout = Annotated[float, typer.Option(help="Seconds for a connection, and for an endpoint's first answer.")]
MaxBodyMib = Annotated[float, typer.Option(help="MiB that an endpoint's answer may have.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens a reply may have.")]
Temperature = Annotated[float, typer.Option(help="Of sampling; 0 is greedy.")]
Structured = Annotated[bool, typer.Option("--structured", help="Send the reply's JSON schema (endpoints and vLLM).")]
KeyEnv = Annotated[str | None, typer.Option(help="NAME of the environment variable with the API key.")]


@app.callback()
def _commands() -> None:
    """RAG-Zeval: judge RAG answers claim by claim, in one pass of a compact model."""


@app.command()
def version() -> None:
    """Print the version."""
    from rag_zeval import __version__

    print(__version__)


@app.command()
def scorers() -> None:
    """List the scorers, which `python -m eval_benchmarks scorers=[...]` runs: what each is and needs."""
    from rag_zeval.scorers.registry import overview

    for method, lines in groupby(overview(), key=lambda line: line.method):
        print(f"\n{method}")
        for line in lines:
            print(f"    {line.name:<42}  {line.needs}")


@app.command()
def evaluate(
    input: Annotated[Path, typer.Argument(help="JSONL: {id?, question, reference, answers: [..]} (or answer: ..).")],
    model: ModelSpec = None,
    variant: VariantName = None,
    out: OutPath = None,
    html: HtmlPath = None,
    cache: CachePath = None,
    trials: Trials = 1,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    connect_timeout: ConnectTimeout = 10.0,
    max_body_mib: MaxBodyMib = 16.0,
    max_tokens: MaxTokens = Sampling.max_tokens,
    temperature: Temperature = Sampling.temperature,
    structured: Structured = False,
    api_key_env: KeyEnv = None,
) -> None:
    """Judge every answer of INPUT by its reference.

    The score is supported claims / claims: faithfulness if the reference is the retrieved passage, correctness if it
    is the true answer. Rows are written as they finish; the same command goes on after a stop, and tries failed rows
    again.
    """
    from rag_zeval.inputs import read_examples
    from rag_zeval.judge.evaluator import Evaluator
    from rag_zeval.judge.prompt import find_variant
    from rag_zeval.models.cache import CachedBackend, ReplyCache
    from rag_zeval.results import summarize
    from rag_zeval.rows import RowWriter

    if model is None:
        raise InputError(f"no judge named: add --model with one of {SPECS}, for example --model {EXAMPLE}")
    if not 0 <= temperature < math.inf:
        raise InputError(f"--temperature is {temperature}, must be a number of at least 0")
    check_structured(model, structured)
    out = out or Path(f"{input.stem}.results.jsonl")
    check_files({"INPUT": input, "--out": out, "--html": html, "--cache": cache})
    examples = read_examples(input)
    if variant is not None:
        find_variant(variant)  # all that can be wrong is found before a model is loaded
    replies = ReplyCache(cache) if cache is not None else None
    backend = open_backend(
        model,
        concurrency=concurrency,
        timeout=timeout,
        connect_timeout=connect_timeout,
        max_body_mib=max_body_mib,
        api_key_env=api_key_env,
    )
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
    evaluator = Evaluator(
        CachedBackend(backend, replies) if replies is not None else backend, variant, sampling, structured
    )
    with RowWriter(out) as writer:
        rows = _run(evaluator, examples, trials, writer)
        summary = summarize(rows)
        _print_summary(summary, out)
        if html is not None:
            from rag_zeval.report import write_report

            write_report(html, examples, rows, summary)
            print(f"report: {html}")
    if not summary.scored:
        print(f"error: no answer could be scored; the reasons stand above and in {out}", file=sys.stderr)
        raise typer.Exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A model folder, as training leaves it.")],
) -> None:
    """Serve MODEL with vLLM's OpenAI-compatible server.

    Further arguments are vLLM's own, such as --port 8001, --dtype float32 or --tensor-parallel-size 2.
    """
    from rag_zeval.serve import serve

    serve(model, context.args)


@app.command()
def smoke(
    model: ModelSpec = None,
    served: Annotated[Path | None, typer.Option(help="The folder that `serve` was started with here.")] = None,
    variant: VariantName = None,
    structured: Structured = False,
    api_key_env: KeyEnv = None,
) -> None:
    """Ask a judge about one example: scores, status and speed. Exit code 1 if its reply cannot be read.

    With --served, the judge that `serve` serves on this machine, its prompt as its card says; --model then says where
    it is if that is another port. With --model alone, any judge.
    """
    from rag_zeval.serve import served_spec
    from rag_zeval.smoke import smoke

    spec = model if served is None else served_spec(served, model)
    if spec is None:
        raise InputError("no judge named: add --served with the folder that is served here, or --model with any judge")
    check_structured(spec, structured)
    if not smoke(spec, served, variant=variant, structured=structured, api_key_env=api_key_env):
        raise typer.Exit(1)


def check_structured(model: str, structured: bool) -> None:
    """Raises InputError if replies should follow a schema and this model's cannot be made to."""
    if structured and not can_constrain(model):
        raise InputError(
            f"--structured: replies of {model} cannot be held to a schema; those of an endpoint or vLLM can"
        )


def check_files(files: Mapping[str, Path | None]) -> None:
    """Raises InputError if two of the files that a command names are one, or one to be written is no regular file."""
    from rag_zeval.files import check_regular

    seen: dict[str, Path] = {}
    for name, path in files.items():
        if path is None:
            continue
        if name != "INPUT":
            check_regular(path)
        for other, before in seen.items():
            hard = path.exists() and before.exists() and path.samefile(before)
            if hard or os.path.realpath(path) == os.path.realpath(before):
                raise InputError(f"{name} {path}: is the file of {other}; name another")
        seen[name] = path


def _run(evaluator: Evaluator, examples: list[Example], trials: int, writer: RowWriter) -> ResultRows:
    """Evaluate what the file of rows lacks; the rows of this input and these trials, in input order."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from rag_zeval.models.cache import CachedBackend
    from rag_zeval.results import ResultRows, failed_rows, result_row, row_id

    by_id = {example.id: example for example in examples}
    wanted = [row_id(example.id, trial) for trial in range(trials) for example in examples]
    if len(set(wanted)) < len(wanted):
        raise InputError("with --trials, ids like 'x' and 'x#1' collide: rename them")
    failed = failed_rows(writer, evaluator, by_id)
    if failed:
        print(f"trying {len(failed)} failed rows again", file=sys.stderr)
    if isinstance(evaluator.backend, CachedBackend):
        for example, trial in failed.values():  # a reply that nobody could read is no reason to read it again
            evaluator.backend.forget(evaluator.request(example, trial))
    writer.settle(failed)
    start, pace = TextColumn("{task.description}"), TextColumn("{task.fields[pace]}")
    columns = (start, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), pace)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        already = sum(id_ in writer.done for id_ in wanted)
        bar = progress.add_task("judging", total=len(wanted), completed=already, pace="")
        for trial in range(trials):
            todo = [example for example in examples if row_id(example.id, trial) not in writer.done]
            for evaluation in evaluator.evaluate_many(todo, trial):
                writer.append(result_row(evaluator, by_id[evaluation.id], evaluation, trial))
                progress.advance(bar)
                progress.update(bar, pace=_pace(progress.tasks[0], already))
    return ResultRows(writer.done, wanted)


def _pace(task: Task, already: int) -> str:
    """Rate and time left since the start: rows come in batches, which rich's own recent speed makes nonsense of."""
    rate = (task.completed - already) / max(task.elapsed or 0.0, 1e-3)
    left = timedelta(seconds=round(((task.total or 0) - task.completed) / rate))
    return f"{rate:.2f} rows/s, {left} left"


def _print_summary(summary: Summary, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from rag_zeval.report import summary_lines

    table = Table(show_header=False)
    for name, value in summary_lines(summary):
        table.add_row(name, value)
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(f"rows: {out}", soft_wrap=True)


def main() -> None:
    sys.exit(exit_status(_run_app))


def _run_app() -> int:
    try:
        app()  # ends in SystemExit, of bad usage as well
    except SystemExit as stop:
        if stop.code == 130:  # what typer makes of Ctrl-C, without a word
            raise KeyboardInterrupt from stop
        raise
    return 0
