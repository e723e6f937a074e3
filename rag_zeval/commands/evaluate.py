"""`rag-zeval evaluate`: score the answers of files."""

from __future__ import annotations

import math
import random
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.commands.arguments import check_files, read_names
from rag_zeval.errors import InputError
from rag_zeval.models.language_model import SPECS, Sampling, check_spec

if TYPE_CHECKING:
    from rag_zeval.budget import Price
    from rag_zeval.cases.case import Case
    from rag_zeval.evaluation.run import Plan
    from rag_zeval.evaluation.spending import Spending
    from rag_zeval.evaluation.summary import Summary

Inputs = Annotated[list[Path], typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: questions with answers.")]
Scorers = Annotated[str, typer.Option(help="Names with commas between them; `rag-zeval scorers` lists them.")]
Against = Annotated[str | None, typer.Option(help="contexts (faithfulness), truth (correctness), both, or reference.")]
Map = Annotated[list[str], typer.Option(help="Where a field of ours stands, such as question=q or answer=out.text.")]
ModelSpec = Annotated[str | None, typer.Option(help=f"The judge: {SPECS}.")]
VariantName = Annotated[str | None, typer.Option(help="Prompt variant: paper, verdict-last, compact, no-evidence.")]
OutPath = Annotated[Path | None, typer.Option(help="Result rows (default: INPUT's name + .results.jsonl, here).")]
HtmlPath = Annotated[Path | None, typer.Option(help="Also write a report that shows every claim.")]
CachePath = Annotated[Path | None, typer.Option(help="SQLite file that keeps replies, to never pay twice.")]
Trials = Annotated[int, typer.Option(min=1, help="How often to judge each case (samples differ).")]
Limit = Annotated[int | None, typer.Option(min=1, help="Judge the first N cases only.")]
Sample = Annotated[int | None, typer.Option(min=1, help="Judge N cases drawn at random (always the same).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask nothing; say rows, calls, tokens and dollars.")]
Prices = Annotated[Path | None, typer.Option(help='JSON: {MODEL: {"prompt": $, "completion": $}} per million tokens.')]
MaxCost = Annotated[float | None, typer.Option(help="Dollars that may be spent on the judge (needs --prices).")]
Embeddings = Annotated[str | None, typer.Option(help="Model of sentences: a folder, or openai:MODEL@URL.")]
ClaimChecker = Annotated[str | None, typer.Option(help="Folder of an NLI model, for hhem and checked_claims.")]
BertScore = Annotated[str | None, typer.Option(help="Folder of an encoder, for bert_score.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Open requests at once (endpoints only).")]
Timeout = Annotated[float, typer.Option(help="Seconds for a reply, retries included (endpoints only).")]
ConnectTimeout = Annotated[float, typer.Option(help="Seconds for a connection, and for an endpoint's first answer.")]
MaxBodyMib = Annotated[float, typer.Option(help="MiB that an endpoint's answer may have.")]
MaxTokens = Annotated[int, typer.Option(min=1, help="Tokens a reply may have.")]
Temperature = Annotated[float, typer.Option(help="Of sampling; 0 is greedy.")]
Structured = Annotated[bool, typer.Option("--structured", help="Send the reply's JSON schema (endpoints and vLLM).")]
KeyEnv = Annotated[str | None, typer.Option(help="NAME of the environment variable with the API key.")]


def evaluate(
    inputs: Inputs,
    scorers: Scorers = "rag_zeval",
    model: ModelSpec = None,
    against: Against = None,
    map: Map = [],  # noqa: B006 (typer reads it)
    out: OutPath = None,
    html: HtmlPath = None,
    cache: CachePath = None,
    limit: Limit = None,
    sample: Sample = None,
    dry_run: DryRun = False,
    prices: Prices = None,
    max_cost: MaxCost = None,
    variant: VariantName = None,
    trials: Trials = 1,
    embeddings: Embeddings = None,
    claim_checker: ClaimChecker = None,
    bert_score: BertScore = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    connect_timeout: ConnectTimeout = 10.0,
    max_body_mib: MaxBodyMib = 16.0,
    max_tokens: MaxTokens = Sampling.max_tokens,
    temperature: Temperature = Sampling.temperature,
    structured: Structured = False,
    api_key_env: KeyEnv = None,
) -> None:
    """Score every answer in INPUTS, each file a system of its own.

    rag_zeval gives supported claims / claims: faithfulness against the retrieved contexts, correctness against the true
    answer. Rows are written as they finish; the same command goes on after a stop, and tries failed rows again.
    """
    from rag_zeval.budget import Account, Budget
    from rag_zeval.cases.case import CaseSet
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.evaluation.metrics import Judges, check_needs, check_scorers, scorer_names
    from rag_zeval.evaluation.prices import price_of, read_prices
    from rag_zeval.evaluation.run import Plan
    from rag_zeval.evaluation.run import evaluate as run
    from rag_zeval.evaluation.spending import Spending
    from rag_zeval.evaluation.summary import summarize
    from rag_zeval.models.cache import ReplyCache
    from rag_zeval.rows import RowWriter
    from rag_zeval.scorers.registry import MEASURES

    names = scorer_names(scorers)
    if not 0 <= temperature < math.inf:
        raise InputError(f"--temperature is {temperature}, must be a number of at least 0")
    if max_cost is not None and not 0 < max_cost < math.inf:
        raise InputError(f"--max-cost is {max_cost}, must be a number of dollars above 0")
    price = price_of(model, read_prices(prices)) if prices is not None else None
    if max_cost is not None and price is None:
        raise InputError(f"--max-cost: needs --prices with a price of {model or 'the judge, and --model'}")
    if max_cost is not None and check_spec(str(model)) is None:
        raise InputError(f"--max-cost: {model} is no endpoint, and only calls to endpoints are counted: leave it out")
    account = Account(Budget(max_cost), price) if max_cost is not None and price is not None else None
    judges = Judges(
        model, variant, Sampling(temperature=temperature, max_tokens=max_tokens), structured, trials, embeddings,
        claim_checker, bert_score,
        {"concurrency": concurrency, "timeout": timeout, "connect_timeout": connect_timeout,
         "max_body_mib": max_body_mib, "api_key_env": api_key_env},
        account,
    )  # fmt: skip
    check_scorers(names, judges)
    out = out or Path(f"{inputs[0].stem}.results.jsonl")
    check_files([*(("INPUT", path) for path in inputs), ("--out", out), ("--html", html), ("--cache", cache)])
    fields = read_names(map)
    files = [read_cases(path, fields) for path in inputs]
    cases = CaseSet([case for of_file in files for case in _drawn(of_file, limit, sample)])
    check_needs(names, cases)
    known = {case.id for of_file in files for case in of_file}
    plan = Plan(cases, known, names, cases.sources(against), judges)
    if dry_run:
        _print_estimate(plan, price)
        return
    spending = Spending(price)
    if cache is None and any(name in MEASURES and MEASURES[name].prompts for name in names):
        cache = out.with_name(f"{out.name}.replies.sqlite")  # scorers of a family ask the same things
    replies = ReplyCache(cache) if cache is not None else None
    with replies or nullcontext(), RowWriter(out) as writer:
        rows = run(plan, writer, replies, spending)
        summary = summarize(rows)
        _print_summary(summary, spending, out)
        if html is not None:
            from rag_zeval.report.html import write_report

            write_report(html, rows)
            print(f"report: {html}")
    if spending.unasked:
        left = f"{spending.unasked} rows were not asked, or not to their end"
        print(f"stopped: --max-cost {max_cost} is reached; {left}. A larger one goes on from here", file=sys.stderr)
        raise typer.Exit(1)
    if not summary.scored:
        print(f"error: no answer could be scored; the reasons stand above and in {out}", file=sys.stderr)
        raise typer.Exit(1)


def _drawn(cases: list[Case], limit: int | None, sample: int | None) -> list[Case]:
    """The same cases of every file that has the same ids."""
    if sample is not None and sample < len(cases):
        ids = set(random.Random(0).sample(sorted({case.id for case in cases}), sample))
        cases = [case for case in cases if case.id in ids]
    return cases[:limit]


def _print_estimate(plan: Plan, price: Price | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from rag_zeval.evaluation.estimate import LOOKED_AT, estimate
    from rag_zeval.models.cache import ReplyCache

    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as replies:
        estimates = estimate(plan, replies)
    table = Table("metric", "judgements", "calls", "tokens in", "tokens out", "dollars")
    for one in estimates:
        dollars = "no price" if price is None else f"{price.of(one.prompt_tokens, one.completion_tokens):.2f}"
        counts = (one.judgements, one.calls, one.prompt_tokens, one.completion_tokens)
        table.add_row(one.metric, *(f"{count:,.0f}" for count in counts), dollars)
    console = Console(markup=False, highlight=False)
    console.print(f"{len(plan.cases.cases)} cases; other scorers ask no judge")
    console.print(table)
    console.print(
        f"Nothing was asked. Calls are those of a judge that goes by the letter on {LOOKED_AT} cases at most; tokens "
        "are words and marks, and a real judge's replies are longer: an order of size."
    )


def _print_summary(summary: Summary, spending: Spending, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from rag_zeval.evaluation.summary import column_cells, cost_lines

    heads = ["metric", "system", "mean", "95% interval", "answers scored"]
    trials = any(column.trial_sd is not None for column in summary.columns)
    console = Console(markup=False, highlight=False)
    table = Table(*heads, *(["SD over trials"] if trials else []))
    for column in summary.columns:
        deviation = "" if column.trial_sd is None else f"{column.trial_sd:.3f}"
        table.add_row(column.metric, column.system, *column_cells(column), *([deviation] if trials else []))
    console.print(table)
    if summary.slices:
        table = Table("slice (worst first)", *heads)
        for column in summary.slices:
            table.add_row(str(column.slice_tag), column.metric, column.system, *column_cells(column))
        console.print(table)
    costs = Table(show_header=False)
    for name, value in cost_lines(summary, spending):
        costs.add_row(name, value)
    console.print(costs)
    console.print(f"rows: {out}", soft_wrap=True)
