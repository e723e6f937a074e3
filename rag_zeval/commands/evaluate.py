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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_zeval.commands.arguments import check_files, read_names
from rag_zeval.errors import InputError
from rag_zeval.judge.needs import NOUNS
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.open import SPECS, check_spec
from rag_zeval.terminal_tables import print_framed
from rag_zeval.text import one_line

EXAMPLES, SHOWN = 3, 200  # cases that a dry run shows, and characters of each text

if TYPE_CHECKING:
    from rag_zeval.budget import Price
    from rag_zeval.cases.case import Case
    from rag_zeval.cases.reading import CaseFile
    from rag_zeval.evaluation.run import Plan
    from rag_zeval.scoring.spending import Spending
    from rag_zeval.scoring.summary import Summary

WHAT, JUDGE, ENDPOINT, COST, OUTPUT = "What to judge", "Judge", "Calls to the endpoint", "Cost", "Output"  # of --help


def _option(panel: str, help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE",
        help="Questions with answers: CSV, TSV, JSON, JSONL, Parquet or Excel. Each FILE holds the answers of one "
        "system; NAME= names it.",
    ),
]
Scorers = Annotated[str, _option(WHAT, "The scorers to run, separated by commas. `rag-zeval scorers` lists them all.")]
Against = Annotated[
    str | None,
    _option(
        WHAT,
        "The text that answers are checked against: contexts (faithfulness), truth (correctness), both, or reference. "
        "Default: the first of reference, contexts and truth that the file has.",
    ),
]
Map = Annotated[
    list[str],
    _option(
        WHAT,
        "The column that holds a field, such as question=q or answer=output.text. Give it once for each field. "
        "Default: columns are found by their names.",
    ),
]
Encoding = Annotated[
    str | None,
    _option(WHAT, "The encoding of text files, such as cp1252. Default: UTF-8, or UTF-16 with a byte order mark."),
]
SkipBadRows = Annotated[
    bool,
    _option(
        WHAT, "Skip rows that cannot be read, and count them. Default: such a row stops the run.", "--skip-bad-rows"
    ),
]
Limit = Annotated[int | None, _option(COST, "Judge only the first N cases. Default: all.", min=1)]
Sample = Annotated[
    int | None,
    _option(COST, "Judge only N cases, drawn at random with a fixed seed: always the same ones. Default: all.", min=1),
]
ModelSpec = Annotated[str | None, _option(JUDGE, f"The model that judges: {SPECS}. Your texts are sent to it.")]
VariantName = Annotated[
    str | None,
    _option(
        JUDGE,
        "The prompt of the rag_zeval scorer: paper, verdict-last, compact or no-evidence. "
        "Default: the one that the model was trained with, or the paper's.",
    ),
]
Trials = Annotated[
    int,
    _option(
        JUDGE, "How many times to judge each case, and to pay for it. Replies are sampled, so scores differ.", min=1
    ),
]
MaxTokens = Annotated[int, _option(JUDGE, "The maximum length of a reply, in tokens.", min=1)]
Temperature = Annotated[
    float, _option(JUDGE, "The sampling temperature. At 0 the judge always writes the likeliest token.")
]
Structured = Annotated[
    bool,
    _option(
        JUDGE,
        "Force replies into the JSON format of the judge. Works with endpoints and vLLM. Default: only the prompt asks "
        "for it.",
        "--structured",
    ),
]
Embeddings = Annotated[
    str | None,
    _option(JUDGE, "The model that embeds sentences, for scorers that need one: a folder, or openai:MODEL@URL."),
]
ClaimChecker = Annotated[
    str | None,
    _option(JUDGE, "The folder of a model that checks claims, for hhem, checked_sentences and checked_claims."),
]
BertScore = Annotated[str | None, _option(JUDGE, "The folder of an encoder model, for bert_score.")]
KeyEnv = Annotated[
    str | None,
    _option(
        ENDPOINT,
        "The NAME of the environment variable that holds the API key. Default: OPENAI_API_KEY.",
    ),
]
Concurrency = Annotated[int, _option(ENDPOINT, "The maximum number of requests that are open at once.", min=1)]
Timeout = Annotated[float, _option(ENDPOINT, "How many seconds to wait for a reply, retries included.")]
ConnectTimeout = Annotated[
    float, _option(ENDPOINT, "How many seconds to wait for a connection. Replies may take longer: see --timeout.")
]
MaxBodyMib = Annotated[float, _option(ENDPOINT, "The maximum size of a response from the endpoint, in MiB.")]
DryRun = Annotated[
    bool,
    _option(COST, "Show how files are read and what a run would ask, then stop. Free: it calls no judge.", "--dry-run"),
]
Prices = Annotated[
    Path | None,
    _option(
        COST,
        'A JSON file with prices in dollars per million tokens: {MODEL: {"prompt": 0.15, "completion": 0.60}}. '
        "Default: costs are shown in tokens only.",
    ),
]
MaxCost = Annotated[
    float | None,
    _option(COST, "Stop asking the judge after this many dollars. Needs --prices. Default: no limit."),
]
CachePath = Annotated[
    Path | None,
    _option(
        COST,
        "An SQLite file that keeps replies, so that no reply is paid for twice. "
        "Default: a file beside --out if several scorers ask the same; otherwise none.",
    ),
]
OutPath = Annotated[
    Path | None,
    _option(
        OUTPUT,
        "The JSONL file for the result rows. Default: the first FILE's name with .results.jsonl, in this folder.",
    ),
]
HtmlPath = Annotated[Path | None, _option(OUTPUT, "Also write a report that shows every claim.")]
CsvPath = Annotated[
    Path | None,
    _option(OUTPUT, "Also write a table of scores, in the order of the input.", "--csv"),
]


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
    """Score every answer of a file, and print the means with their 95% intervals.

    Columns are found by their names. The command first shows what it will judge; --dry-run stops there.

    The scorer rag_zeval gives the share of an answer's claims that are supported: faithfulness if checked against
    the retrieved contexts, correctness if checked against the ground truth.

    Rows are written as they finish. Run the same command again to resume: it skips rows that have a score and retries
    rows that failed.
    """
    from rag_zeval.budget import Account, Budget
    from rag_zeval.cases.case import CaseSet
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.evaluation.metrics import Judges, check_needs, check_scorers, scorer_names
    from rag_zeval.evaluation.run import Plan, judged_by
    from rag_zeval.evaluation.run import evaluate as run
    from rag_zeval.evaluation.scores_table import write_scores
    from rag_zeval.models.cache import ReplyCache
    from rag_zeval.rows import RowWriter
    from rag_zeval.scorers.registry import MEASURES
    from rag_zeval.scoring.prices import price_of, read_prices
    from rag_zeval.scoring.spending import Spending
    from rag_zeval.scoring.summary import summarize

    names = scorer_names(scorers)
    if not 0 <= temperature < math.inf:
        raise InputError(f"--temperature is {temperature}, but must be 0 or more")
    if max_cost is not None and not 0 < max_cost < math.inf:
        raise InputError(f"--max-cost is {max_cost}, but must be more than 0 dollars")
    price = price_of(model, read_prices(prices)) if prices is not None else None
    if max_cost is not None and price is None:
        raise InputError(f"--max-cost needs the price of {model or 'the judge'}: add --prices with a file that has it")
    if max_cost is not None and check_spec(str(model)) is None:
        raise InputError(f"--max-cost works for endpoints only, and {model} is not one: remove --max-cost")
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
        left = f"{spending.unasked} rows are not judged, or not completely"
        print(f"stopped at --max-cost {max_cost}: {left}. Run again with a larger value to resume", file=sys.stderr)
        raise typer.Exit(1)
    if not summary.scored:
        print(f"error: no answer could be scored; see the reasons above and in {out}", file=sys.stderr)
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
            raise InputError(f"{' and '.join(same)}: both systems are called '{name}'. Give them names: {told}")


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
    from rag_zeval.evaluation.metrics import metric_name, places
    from rag_zeval.models.cache import ReplyCache
    from rag_zeval.scoring.estimate import LOOKED_AT, asked, drawn_to_look_at, open_with_mock_judge
    from rag_zeval.scoring.opening import Asking, asks_judge

    judgements = len(plan.cases.cases) * plan.judges.trials
    asking = Asking(plan.judges.sampling, plan.judges.variant)
    rows = []
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        for name, source in places([name for name in plan.scorers if asks_judge(name)], plan.sources):
            examples = [plan.cases.example(at, source) for at in drawn_to_look_at(len(plan.cases.cases))]
            one = asked(open_with_mock_judge(name, asking, cache), examples, judgements)
            dollars = "no price" if price is None else f"{price.of(one.prompt_tokens, one.completion_tokens):.2f}"
            counts = (judgements, one.calls, one.prompt_tokens, one.completion_tokens)
            rows.append((metric_name(name, source), *(f"{count:,.0f}" for count in counts), dollars))
    print_framed(("metric", "judgements", "calls", "tokens in", "tokens out", "dollars"), rows)
    print(
        f"No judge was asked. A rule-based mock judge was run on at most {LOOKED_AT} cases to count calls and tokens "
        "(words and punctuation marks). A real judge writes longer replies, so this is a rough estimate. Scorers that "
        "ask no judge are not listed."
    )


def _print_summary(summary: Summary, spending: Spending, out: Path) -> None:
    from rag_zeval.scoring.summary import column_cells, cost_lines

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
