"""`rag-zeval evaluate` scores the answers of files; `rag-zeval scorers` lists the scorers."""

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import (
    COST,
    ENDPOINT,
    JUDGE,
    OUTPUT,
    WHAT,
    ConnectTimeout,
    EmbeddingsKeyEnv,
    ExtraBody,
    KeyEnv,
    Map,
    ModelSpec,
    Prices,
    Structured,
    Timeout,
    VariantName,
    check_files,
    option,
    read_extra_body,
    read_names,
    read_thresholds,
)  # fmt: skip
from rag_zeval.models.language_model import Sampling


def evaluate(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE",
            help="Questions with answers: CSV, Excel, JSON, JSONL, Parquet and other formats. Give a FILE for each "
            "system, or one that names the system of each answer. NAME= names the system of a FILE.",
        ),
    ],
    scorers: Annotated[
        str | None,
        option(
            WHAT,
            "The scorers to run, separated by commas. `rag-zeval scorers` lists them all. Default: rag_zeval, or none "
            "with --criteria.",
        ),
    ] = None,
    criteria: Annotated[
        list[str],
        option(
            WHAT,
            "A YAML file with rules of your own, which becomes a scorer, or one that ships: relevance, completeness or "
            "conciseness. Give it once for each file.",
        ),
    ] = [],  # noqa: B006 (typer reads it)
    model: ModelSpec = None,
    against: Annotated[
        str | None,
        option(
            WHAT,
            "The text that answers are checked against: contexts (faithfulness), truth (correctness), both, or "
            "reference. Default: contexts if the file has them, otherwise the column reference, or else truth. A "
            "column that you choose by --map reference=COLUMN comes first.",
        ),
    ] = None,
    map: Map = [],  # noqa: B006 (typer reads it)
    join: Annotated[
        list[Path],
        option(
            WHAT,
            "Another file, such as that of the questions. Its columns are added to the rows with the same id, or else "
            "with the same question. Give it once for each such file. Default: each FILE has all columns.",
        ),
    ] = [],  # noqa: B006 (typer reads it)
    encoding: Annotated[
        str | None,
        option(WHAT, "The encoding of text files, such as cp1252. Default: UTF-8, or UTF-16 with a byte order mark."),
    ] = None,
    skip_bad_rows: Annotated[
        bool,
        option(
            WHAT, "Skip rows that cannot be read, and count them. Default: such a row stops the run.", "--skip-bad-rows"
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "The JSONL file for the result rows. Default: the first FILE's name with .results.jsonl, in this folder.",
        ),
    ] = None,
    html: Annotated[Path | None, option(OUTPUT, "Also write a report that shows every claim.")] = None,
    csv: Annotated[
        Path | None, option(OUTPUT, "Also write a table of scores, in the order of the input.", "--csv")
    ] = None,
    threshold: Annotated[
        list[str],
        option(
            OUTPUT,
            "A metric and the minimum score that an answer needs to pass, such as rag_zeval@contexts=0.8; a maximum if "
            "lower is better. Adds how many pass. Give it once for each metric.",
        ),
    ] = [],  # noqa: B006 (typer reads it)
    cache: Annotated[
        Path | None,
        option(
            COST,
            "An SQLite file that keeps replies, so that no reply is paid for twice. Default: a file beside --out if a "
            "scorer other than rag_zeval asks a judge; otherwise none.",
        ),
    ] = None,
    limit: Annotated[
        int | None, option(COST, "Judge only the first N cases of each FILE. Default: all.", min=1)
    ] = None,
    sample: Annotated[
        int | None,
        option(
            COST,
            "Judge only N cases of each FILE: from each slice its share, and always the same ones. Default: all.",
            min=1,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        option(COST, "Show how files are read and how many calls a run would make, then stop. Free.", "--dry-run"),
    ] = False,
    prices: Prices = None,
    max_cost: Annotated[
        float | None, option(COST, "Stop calling the judge after this many dollars. Needs --prices. Default: no limit.")
    ] = None,
    variant: VariantName = None,
    trials: Annotated[
        int,
        option(
            JUDGE, "How many times to judge each case, and to pay for it. Replies are sampled, so scores differ.", min=1
        ),
    ] = 1,
    embeddings: Annotated[
        str | None,
        option(JUDGE, "The model that embeds sentences, for scorers that need one: a folder, or openai:MODEL@URL."),
    ] = None,
    claim_checker: Annotated[
        str | None,
        option(JUDGE, "The folder of a model that checks claims, for hhem, checked_sentences and checked_claims."),
    ] = None,
    bert_score: Annotated[str | None, option(JUDGE, "The folder of an encoder model, for bert_score.")] = None,
    concurrency: Annotated[int, option(ENDPOINT, "The maximum number of requests that are open at once.", min=1)] = 8,
    timeout: Timeout = 600.0,
    connect_timeout: ConnectTimeout = 10.0,
    max_body_mib: Annotated[
        float, option(ENDPOINT, "The maximum size of a response from the endpoint, in MiB.")
    ] = 16.0,
    max_tokens: Annotated[int, option(JUDGE, "The maximum length of a reply, in tokens.", min=1)] = Sampling.max_tokens,
    temperature: Annotated[
        float,
        option(
            JUDGE,
            "The sampling temperature for rag_zeval; other scorers have their own. At 0 the judge always writes the "
            "likeliest token.",
        ),
    ] = Sampling.temperature,
    structured: Structured = None,
    extra_body: ExtraBody = None,
    api_key_env: KeyEnv = None,
    embeddings_key_env: EmbeddingsKeyEnv = None,
) -> None:
    """Score every answer of a file, and print the means with their 95% intervals.

    Columns are found by their names. The command first shows what it will judge; --dry-run stops there.

    The scorer rag_zeval gives the share of an answer's claims that are supported: faithfulness if checked against
    the retrieved contexts, correctness if checked against the ground truth.

    Rows are written as they finish. Run the same command again to resume: it skips rows that have a score and retries
    rows that failed.
    """
    from rag_zeval.cases.reading import read_cases
    from rag_zeval.evaluation.metrics import Judges, check_scorers, chosen_scorers, metric_name, need_texts, places
    from rag_zeval.evaluation.output import print_dry_run, print_summary, write_scores
    from rag_zeval.evaluation.run import judged_by, named_as, plan_run, reply_cache, score, stopped
    from rag_zeval.report.html import write_report
    from rag_zeval.scorers.registry import criteria_path
    from rag_zeval.scoring.opening import Asking
    from rag_zeval.scoring.prices import open_account, price_of, prices_of_rows, read_prices
    from rag_zeval.scoring.spending import Spending
    from rag_zeval.scoring.summary import summarize

    chosen = chosen_scorers(scorers, criteria)
    listed = read_prices(prices) if prices is not None else {}
    price = price_of(model, listed)
    asking = Asking(Sampling(temperature=temperature, max_tokens=max_tokens), variant, structured)
    calls = {
        "concurrency": concurrency, "timeout": timeout, "connect_timeout": connect_timeout,
        "max_body_mib": max_body_mib, "api_key_env": api_key_env,
        "extra_body": read_extra_body(extra_body),
    }  # fmt: skip
    account = open_account(model, price, max_cost)
    if prices is not None and model is not None and price is None:
        print(f"note: {prices} has no price for {model}, so no dollars are shown", file=sys.stderr)
    judges = Judges(
        model,
        asking=asking,
        trials=trials,
        embeddings=embeddings,
        claim_checker=claim_checker,
        bert_score=bert_score,
        calls=calls,
        account=account,
        embeddings_key_env=embeddings_key_env,
    )
    check_scorers(chosen, judges, asking=not dry_run)

    sources = [_named(word) for word in inputs]
    out = out or Path(f"{Path(sources[0][1].name.removesuffix('.gz')).stem}.results.jsonl")
    cache = cache or reply_cache(out, chosen)
    read = [*(path for _, path in sources), *join, prices, *(criteria_path(name) for name in criteria)]
    check_files(read, ("--out", out), ("--html", html), ("--csv", csv), ("--cache", cache))
    fields, judged = read_names(map), need_texts(chosen)
    files = [
        read_cases(
            path,
            fields,
            encoding=encoding,
            skip_bad_rows=skip_bad_rows,
            system=name,
            judged=judged,
            against=against,
            join=tuple(join),
        )
        for name, path in sources
    ]
    files = [named_as(name, file) for (name, _), file in zip(sources, files, strict=True)]
    print(*files, sep="\n", file=sys.stderr)
    run = plan_run(files, chosen, against, judges, limit, sample)
    thresholds = read_thresholds(threshold, [metric_name(*place) for place in places(chosen, run.sources)])
    for line in judged_by(run):
        print(line, file=sys.stderr)
    if dry_run:
        print_dry_run(run, price)
        return

    spending = Spending(prices_of_rows(model, listed))
    with score(run, out, cache, spending) as rows:
        summary = summarize(rows)
        print_summary(summary, spending, thresholds)
        print(f"rows: {out}")
        if csv is not None:
            write_scores(csv, run.cases, rows, thresholds)
            print(f"scores: {csv}")
        if html is not None:
            write_report(html, rows)
            print(f"report: {html}")
    if max_cost is not None and spending.unasked:
        print(stopped(max_cost, spending), file=sys.stderr)
        raise typer.Exit(1)
    if not summary.scored:
        print(f"error: no answer could be scored; see the reasons above and in {out}", file=sys.stderr)
        raise typer.Exit(1)


def _named(word: str) -> tuple[str | None, Path]:
    """Split `old=a/run.csv` into a system's name and a file. The name is None if there is none.

    A file whose name is the whole word, `=` included, is taken for a file without a system's name.
    """
    name, _, path = word.partition("=")
    return (name, Path(path)) if name and path and not Path(word).exists() else (None, Path(word))


def scorers() -> None:
    """List the scorers: what each one is, what it needs and how often it calls a model."""
    from rag_zeval.scorers.registry import overview

    print(f"{'':46}  calls  tokens  needs")
    for method, lines in groupby(overview(), key=lambda line: line.method):
        print(f"\n{method}")
        for line in lines:
            calls, tokens = ("-" if not count else f"{count:,}" for count in (line.calls, line.tokens))
            print(f"    {line.name:<42}  {calls:>5}  {tokens:>6}  {line.needs}")
    print(
        "\nCalls and tokens are rough estimates: measured with a rule-based mock judge, for a question with two answers"
    )
    print("and five chunks. `rag-zeval evaluate --dry-run` estimates them for your own file.")
