"""`rag-zeval`: score a RAG system's answers from the command line."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rag_zeval.commands.audit import audit
from rag_zeval.commands.audit_qrels import audit_qrels
from rag_zeval.commands.check_set import check_set
from rag_zeval.commands.collect import collect
from rag_zeval.commands.compare import compare
from rag_zeval.commands.evaluate import ConnectTimeout, KeyEnv, ModelSpec, Structured, Timeout, VariantName, evaluate
from rag_zeval.commands.failures import failures
from rag_zeval.commands.gate import gate
from rag_zeval.commands.questions import questions
from rag_zeval.commands.report import report
from rag_zeval.commands.retrieval import retrieval
from rag_zeval.commands.sample import sample
from rag_zeval.commands.serve_report import serve_report
from rag_zeval.errors import InputError, exit_status


class _Commands(TyperGroup):
    """Its help lists the scorers, which are looked up then and not for every command."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rag_zeval.scorers.registry import SCORERS

        self.epilog = f"Scorers (`rag-zeval scorers` says what each needs): {', '.join(SCORERS)}."
        super().format_help(ctx, formatter)


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        from rag_zeval import __version__

        print(__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")]


@app.callback()
def _commands(version: Version = False) -> None:
    """RAG-Zeval: judge RAG answers claim by claim, in one pass of a compact model."""


@app.command()
def scorers() -> None:
    """List the scorers that `evaluate --scorers` and the benchmarks run: what each is and needs."""
    from rag_zeval.scorers.registry import overview

    print(f"{'':46}  calls  tokens  needs")
    for method, lines in groupby(overview(), key=lambda line: line.method):
        print(f"\n{method}")
        for line in lines:
            calls, tokens = ("-" if not count else f"{count:,}" for count in (line.calls, line.tokens))
            print(f"    {line.name:<42}  {calls:>5}  {tokens:>6}  {line.needs}")
    print("\nCalls and tokens of a judge that goes by the letter, for a question with two answers and five chunks: an")
    print("order of size. `rag-zeval evaluate --dry-run` tells them of your own file.")


for command in (
    evaluate,
    report,
    serve_report,
    compare,
    gate,
    questions,
    collect,
    check_set,
    retrieval,
    failures,
    sample,
    audit,
    audit_qrels,
):
    app.command()(command)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def mock_judge(context: typer.Context) -> None:
    """Serve a judge without a model, which goes by the letter: to try everything before paying for a real one.

    A statement follows from a text, for it, exactly if its sentence stands there. --port 8001 chooses the port.
    """
    from rag_zeval.scripted_judge import main as serve_scripted

    serve_scripted(["--literal", *context.args])


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
    timeout: Timeout = 45.0,
    connect_timeout: ConnectTimeout = 10.0,
    api_key_env: KeyEnv = None,
) -> None:
    """Ask a judge about one example: scores, status and speed. Exit code 1 if its reply cannot be read.

    With --served, the judge that `serve` serves on this machine, its prompt as its card says; --model then says where
    it is if that is another port. With --model alone, any judge.
    """
    from rag_zeval.evaluation.metrics import check_structured
    from rag_zeval.serve import served_spec
    from rag_zeval.smoke import smoke

    spec = model if served is None else served_spec(served, model)
    if spec is None:
        raise InputError("no judge named: add --served with the folder that is served here, or --model with any judge")
    if structured:
        check_structured(spec)
    calls = {"timeout": timeout, "connect_timeout": connect_timeout, "api_key_env": api_key_env}
    if not smoke(spec, served, variant=variant, structured=structured, **calls):
        raise typer.Exit(1)


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
