"""`rag-zeval`: score a RAG system's answers from the command line."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from rag_zeval import __version__
from rag_zeval.commands.audit import audit, audit_qrels, judge_card, qrels, sample
from rag_zeval.commands.collect import collect
from rag_zeval.commands.decisions import compare, gate
from rag_zeval.commands.evaluate import evaluate, scorers
from rag_zeval.commands.golden import check_set, failures, retrieval
from rag_zeval.commands.judges import mock_judge, serve, smoke
from rag_zeval.commands.labels import keep_labels, reuse_labels
from rag_zeval.commands.metrics import consistency, metrics
from rag_zeval.commands.questions import chunks, questions
from rag_zeval.commands.report import dashboard, report, serve_report
from rag_zeval.streams import exit_status, run_app

ABOUT = "RAG-Zeval checks the answers of a RAG system claim by claim: is each claim supported?"
MOCK = "--model openai:judge@http://127.0.0.1:8001/v1"  # what `mock-judge --port 8001` serves
# Group -> command -> its function, and an example that its help begins with.
COMMANDS: Mapping[str, Mapping[str, tuple[Callable[..., None], str]]] = {
    "Evaluate": {
        "mock-judge": (mock_judge, "rag-zeval mock-judge --port 8001"),
        "evaluate": (evaluate, f"rag-zeval evaluate answers.csv {MOCK}"),
        "report": (report, "rag-zeval report answers.results.jsonl --html report.html"),
        "serve-report": (serve_report, "rag-zeval serve-report answers.results.jsonl --port 8080"),
        "scorers": (scorers, "rag-zeval scorers"),
    },
    "Decide": {
        "compare": (compare, "rag-zeval compare old.results.jsonl new.results.jsonl --html changed.html"),
        "gate": (gate, "rag-zeval gate old.results.jsonl new.results.jsonl --max-drop 0.02"),
        "dashboard": (dashboard, "rag-zeval dashboard old.results.jsonl new.results.jsonl --html dashboard.html"),
        "consistency": (
            consistency,
            "rag-zeval consistency run1.results.jsonl run2.results.jsonl run3.results.jsonl",
        ),
        "failures": (failures, "rag-zeval failures answers.results.jsonl answers.csv"),
    },
    "Test sets": {
        "chunks": (chunks, "rag-zeval chunks manuals --out chunks.csv"),
        "questions": (questions, f"rag-zeval questions manuals --out made.jsonl --n 6 {MOCK}"),
        "collect": (
            collect,
            "rag-zeval collect questions.jsonl --url http://127.0.0.1:9000/ask --answer $.answer --out answers.jsonl",
        ),
        "check-set": (check_set, "rag-zeval check-set golden.jsonl"),
        "qrels": (qrels, "rag-zeval qrels answers.results.jsonl --out judge.qrels"),
        "retrieval": (retrieval, "rag-zeval retrieval answers.jsonl --k 5,10"),
    },
    "Audit the judge": {
        "sample": (sample, "rag-zeval sample answers.results.jsonl --n 50 --out sheet.csv"),
        "audit": (audit, "rag-zeval audit sheet.csv answers.results.jsonl"),
        "judge-card": (judge_card, "rag-zeval judge-card sheet.csv answers.results.jsonl --out judge-card.md"),
        "keep-labels": (keep_labels, "rag-zeval keep-labels sheet.csv answers.results.jsonl --person ann"),
        "reuse-labels": (reuse_labels, "rag-zeval reuse-labels labels.jsonl new.results.jsonl"),
        "audit-qrels": (audit_qrels, "rag-zeval audit-qrels people.qrels judge.qrels"),
        "metrics": (metrics, "rag-zeval metrics answers.results.jsonl --html metrics.html"),
    },
    "Serve a judge": {
        "serve": (serve, "rag-zeval serve runs/train/paper/model --port 8000"),
        "smoke": (smoke, f"rag-zeval smoke {MOCK}"),
    },
}
FIRST_HOUR = ("mock-judge", "evaluate", "report", "compare", "gate")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True, help=f"{ABOUT}\n\nWithout a command, it prints where to begin.")
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        _print_first_screen()


def _paragraphs(function: Callable[..., None]) -> list[str]:
    """Return the paragraphs of the docstring, each on one line. The terminal decides where lines break."""
    return [" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n")]


def _print_first_screen() -> None:
    examples = {name: (function, example) for group in COMMANDS.values() for name, (function, example) in group.items()}
    print(f"{ABOUT}\n\nYour first hour:\n")
    for name in FIRST_HOUR:
        function, example = examples[name]
        print(f"  {example}\n      {_paragraphs(function)[0]}")
    print("\nAll commands:\n")
    for title, group in COMMANDS.items():
        print(f"  {title:<17}{', '.join(group)}")
    print("\n`rag-zeval --help` says what each command does. `rag-zeval COMMAND --help` explains its options.")


for _title, _group in COMMANDS.items():
    for _name, (_function, _example) in _group.items():
        _about = _paragraphs(_function)
        _passed_on: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(
            _name,
            help="\n\n".join([f"$ {_example}", *_about]),
            short_help=_about[0],
            rich_help_panel=_title,
            context_settings=_passed_on if _function is serve else None,  # vLLM gets them
        )(_function)


def main() -> None:
    sys.exit(exit_status(lambda: run_app(app)))
