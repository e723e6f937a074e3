"""`rag-zeval evaluate`: score the answers of files."""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_zeval.commands.arguments import check_files, read_names
from rag_zeval.errors import InputError
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.language_model import SPECS, Sampling, check_spec, one_line
from rag_zeval.terminal_tables import print_framed

EXAMPLES, SHOWN = 3, 200  # cases that a dry run shows, and characters of each text

if TYPE_CHECKING:
    from rag_zeval.budget import Price
    from rag_zeval.cases.case import Case
    from rag_zeval.cases.reading import CaseFile
    from rag_zeval.evaluation.run import Plan
    from rag_zeval.evaluation.spending import Spending
    from rag_zeval.evaluation.summary import Summary

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help="Questions with answers: CSV, TSV, JSON, JSONL, Parquet or Excel. NAME is what the system is called.",
    ),
]
Scorers = Annotated[str, typer.Option(help="Names with commas between them; `rag-zeval scorers` lists them.")]
Against = Annotated[str | None, typer.Option(help="contexts (faithfulness), truth (correctness), both, or reference.")]
Map = Annotated[list[str], typer.Option(help="Say which column holds what: question=q, or answer=out.text.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of text files that are not UTF-8, such as cp1252.")]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read, and count them.")
]
CsvPath = Annotated[Path | None, typer.Option("--csv", help="Also write a table of scores, in the order of the input.")]
ModelSpec = Annotated[str | None, typer.Option(help=f"The judge: {SPECS}.")]
VariantName = Annotated[str | None, typer.Option(help="Prompt variant: paper, verdict-last, compact, no-evidence.")]
OutPath = Annotated[Path | None, typer.Option(help="Result rows (default: INPUT's name + .results.jsonl, here).")]
HtmlPath = Annotated[Path | None, typer.Option(help="Also write a report that shows every claim.")]
CachePath = Annotated[Path | None, typer.Option(help="SQLite file that keeps replies, to never pay twice.")]
Trials = Annotated[int, typer.Option(min=1, help="How often to judge each case (samples differ).")]
Limit = Annotated[int | None, typer.Option(min=1, help="Judge the first N cases only.")]
Sample = Annotated[int | None, typer.Option(min=1, help="Judge N cases drawn at random (always the same).")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show how files are read and what a run would ask; ask nothing.")
]
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
    encoding: Encoding = None,
    skip_bad_rows: SkipBadRows = False,
    out: OutPath = None,
    html: HtmlPath = None,
    csv: CsvPath = None,
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
    """Score every answer in each FILE, which is a system of its own.

    Columns are known by their names; what will be judged is shown first, and --dry-run shows no more than that.

    rag_zeval gives supported claims / claims: faithfulness against the retrieved contexts, correctness against the true
    answer. Rows are written as they finish; the same command goes on after a stop, and tries failed rows again.
    """
    from rag_zeval.budget import Account, Budget
    from rag_zeval.cases.case import CaseSet
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.evaluation.metrics import Judges, check_needs, check_scorers, scorer_names
    from rag_zeval.evaluation.prices import price_of, read_prices
    from rag_zeval.evaluation.run import Plan, judged_by
    from rag_zeval.evaluation.run import evaluate as run
    from rag_zeval.evaluation.scores_table import write_scores
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
    check_scorers(names, judges, asking=not dry_run)
    sources = [_named(word) for word in inputs]
    out = out or Path(f"{sources[0][1].name.partition('.')[0]}.results.jsonl")
    written = (("--out", out), ("--html", html), ("--csv", csv), ("--cache", cache))
    check_files([*(("INPUT", path) for _, path in sources), *written])
    fields = read_names(map)
    files = [
        read_cases(path, fields, encoding=encoding, skip_bad_rows=skip_bad_rows, system=name) for name, path in sources
    ]
    _check_systems(files)
    cases = CaseSet([case for file in files for case in _drawn(file.cases, limit, sample)])
    by = cases.sources(against)
    check_needs(names, cases)
    known = {case.id for file in files for case in file.cases}
    plan = Plan(cases, known, names, by, judges)
    for file in files:
        print(file, file=sys.stderr)
    for line in judged_by(plan):
        print(line, file=sys.stderr)
    if dry_run:
        _print_examples(plan)
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
        if csv is not None:
            write_scores(csv, cases, rows)
            print(f"scores: {csv}")
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


def _named(word: str) -> tuple[str | None, Path]:
    """`old=a/run.csv` as a system's name and a file; a file may have the sign in its name."""
    name, sign, path = word.partition("=")
    return (name, Path(path)) if sign and name and not Path(word).exists() else (None, Path(word))


def _check_systems(files: Sequence[CaseFile]) -> None:
    """Raise InputError if two files would be one system: a mean over both is nobody's."""
    named = Counter(file.system for file in files if file.system is not None)
    for name, count in named.items():
        if count > 1:
            same = [file.name for file in files if file.system == name][:2]
            told = " ".join(f"{letter}={path}" for letter, path in zip(("old", "new"), same, strict=True))
            raise InputError(f"{' and '.join(same)}: both systems are called '{name}'; name them, as in {told}")


def _print_examples(plan: Plan) -> None:
    """The first cases as they will be judged, each text on a line and cut to its beginning."""
    for at, case in enumerate(plan.cases.cases[:EXAMPLES]):
        print(f"case {one_line(case.id)}")
        print(f"  question: {_beginning(case.question)}")
        for system, answer in case.answers.items():
            print(f"  answer of {one_line(system)}: {_beginning(answer or case.unanswered.get(system, ''))}")
        for source in plan.sources:
            text = plan.cases.example(at, source).reference
            print(f"  {NOUNS[source]}: {_beginning(text) or 'none'}")


def _beginning(text: str) -> str:
    return one_line(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)")


def _drawn(cases: list[Case], limit: int | None, sample: int | None) -> list[Case]:
    """The same cases of every file that has the same ids."""
    if sample is not None and sample < len(cases):
        ids = set(random.Random(0).sample(sorted({case.id for case in cases}), sample))
        cases = [case for case in cases if case.id in ids]
    return cases[:limit]


def _print_estimate(plan: Plan, price: Price | None) -> None:
    from rag_zeval.evaluation.estimate import LOOKED_AT, estimate
    from rag_zeval.models.cache import ReplyCache

    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as replies:
        estimates = estimate(plan, replies)
    rows = []
    for one in estimates:
        dollars = "no price" if price is None else f"{price.of(one.prompt_tokens, one.completion_tokens):.2f}"
        counts = (one.judgements, one.calls, one.prompt_tokens, one.completion_tokens)
        rows.append((one.metric, *(f"{count:,.0f}" for count in counts), dollars))
    print_framed(("metric", "judgements", "calls", "tokens in", "tokens out", "dollars"), rows)
    print(
        f"No judge was asked. A rule-based mock judge was run on at most {LOOKED_AT} cases to count calls and tokens "
        "(words and punctuation marks). A real judge writes longer replies, so this is a rough estimate. Scorers that "
        "ask no judge are not listed."
    )


def _print_summary(summary: Summary, spending: Spending, out: Path) -> None:
    from rag_zeval.evaluation.summary import column_cells, cost_lines

    heads = ["metric", "system", "mean", "95% interval", "answers scored"]
    trials = any(column.trial_sd is not None for column in summary.columns)
    rows = []
    for column in summary.columns:
        deviation = "" if column.trial_sd is None else f"{column.trial_sd:.3f}"
        rows.append((column.metric, column.system, *column_cells(column), *([deviation] if trials else [])))
    print_framed([*heads, *(["SD over trials"] if trials else [])], rows)
    if summary.slices:
        of_slices = [(str(one.slice_tag), one.metric, one.system, *column_cells(one)) for one in summary.slices]
        print_framed(["slice (worst first)", *heads], of_slices)
    print_framed(("", ""), cost_lines(summary, spending))
    print(f"rows: {out}")
