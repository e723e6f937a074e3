"""The benchmark stage: load data, score row by row, resume, summarise."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich.text import Text

from eval_benchmarks.bench_manifest import write_manifest
from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.expected_calls import expected_calls_table
from eval_benchmarks.jobs import LeaveOut, ScoringJob, jobs, open_accounts, open_claim_checker
from eval_benchmarks.model_checks import check_models
from eval_benchmarks.output.bench_report import make_report, write_report
from eval_benchmarks.output.table import open_console, show
from eval_benchmarks.plan import Planned, plan_run
from eval_benchmarks.trials import BenchResults, Trial, group_trials, read_scored
from rag_zeval.budget import Account, Budget, BudgetSpent, Price
from rag_zeval.errors import InputError
from rag_zeval.files import write_text
from rag_zeval.progress import Progress
from rag_zeval.rows import RowWriter, StoredRows
from rag_zeval.scorers.score import Scored
from rag_zeval.scoring.prices import price_of, read_prices
from rag_zeval.scoring.row_loop import Work, rows_to_retry, score_rows, take_out
from rag_zeval.scoring.spending import UNNAMED, Spending
from rag_zeval.stages.config import check_settings, stored
from rag_zeval.statuses import status_kinds

REASONS = 5  # reasons for missing scores that are shown for each trial
LEFT_OUT = "left out: "


def run(config: DictConfig) -> int:
    """Score everything that the configuration names, write `out_dir` and print the tables.

    With `dry_run`, only print what would be asked. Returns 0, or 1 after a message on stderr. 1 means one of two
    things:
    - A judge gave a benchmark no score at all. Everything is written first.
    - `max_cost` is reached. The rows are kept, and no tables are written.

    Raises InputError, before any model is loaded, if the configuration, the data or the models cannot be used. Also
    raises it if nothing could be scored.
    """
    console = open_console()
    settings = check_settings(BenchSettings, config)
    prices = read_prices(settings.prices) if settings.prices is not None else {}
    if settings.dry_run:
        show(console, *expected_calls_table(settings, prices))
        return 0
    check_models(settings)
    accounts = open_accounts(settings, prices)
    benchmarks, missing = load_benchmarks(settings)
    out, notes = Path(settings.out_dir), []
    write_text(out / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(stored(config))))

    def leave_out(line: str) -> None:
        notes.append(LEFT_OUT + line)
        console.print(Text(notes[-1], style="yellow"), soft_wrap=True)

    planned, left_out = plan_run(settings, benchmarks)
    for line in (*missing, *left_out):
        leave_out(line)
    try:
        with Progress(console) as progress:
            trials = [*_trials(settings, planned, progress, prices, accounts, leave_out)]
    except BudgetSpent as left:
        print(f"stopped at max_cost={settings.max_cost}: {left}. {_spent(accounts)}", file=sys.stderr)
        print("run the same command with a larger max_cost to resume", file=sys.stderr)
        return 1
    if not trials:
        raise InputError("nothing could be scored: " + "; ".join(note.removeprefix(LEFT_OUT) for note in notes))
    for trial in trials:
        notes += failure_notes(trial)
    notes += _cost_notes(settings, trials, accounts)
    report = make_report(BenchResults(group_trials(trials), settings.bootstrap.draws), notes)
    write_report(report, out)
    show(console, report.tables, report.notes)
    write_manifest(out, config, benchmarks, trials, report.notes)
    console.print(Text(f"tables: {out / 'tables.html'}"), soft_wrap=True)
    silent = [f"{trial.label}: {_missing(trial)[0]}" for trial in trials if trial.model and not trial.has_a_score]
    if silent:
        kept = "Replies that cannot be read are kept: to ask again, choose another out_dir"
        print(f"error: nothing has a score: {'; '.join(silent)}. {kept}", file=sys.stderr)
    return 1 if silent else 0


def _trials(
    settings: BenchSettings,
    planned: Sequence[Planned],
    progress: Progress,
    prices: Mapping[str, Price],
    accounts: Mapping[str, Account],
    leave_out: LeaveOut,
) -> Iterator[Trial]:
    """Score job by job, and yield the trials. Raises BudgetSpent if a job cannot finish because the budget is spent."""
    for job in jobs(settings, planned, open_claim_checker(settings), accounts, leave_out):
        price, account = price_of(job.model, prices), accounts.get(job.model or "")
        path = Path(settings.out_dir) / job.file
        yield Trial(
            benchmark=job.benchmark,
            scorer=job.scorer.name,
            model=job.model,
            file=job.file,
            identity=job.scorer.identity,
            prompt_hash=job.scorer.prompt_hash,
            scored=score(job, path, progress, price, account.budget if account else None),
            number=job.trial,
            price=price,
        )
        del job  # frees the model before the next one is loaded


def score(
    job: ScoringJob, path: Path, progress: Progress, price: Price | None = None, budget: Budget | None = None
) -> Mapping[str, Scored]:
    """Score the examples that have no row yet, and again those of which a reply did not come.

    Raises BudgetSpent if rows are left because the budget is spent. Those that something was paid for are written.
    """
    spending = Spending({} if price is None else {UNNAMED: price})
    examples = {example.id: example for example in job.benchmark.examples}
    with RowWriter(path) as writer:
        read_scored(path, job.benchmark)  # raises InputError if rows of earlier runs do not fit
        for row in writer.done.values():
            spending.add(row)
        unread = [row["id"] for row in writer.done.values() if not row.get("final")]
        take_out(writer, rows_to_retry(unread, spending, budget))
        score_rows(Work(job.label, job.scorer, examples), writer, progress, spending)
    if spending.unasked:
        raise BudgetSpent(f"{spending.unasked} rows of {job.label} were not judged, or not completely")
    return StoredRows(path, Scored.from_row)


def _spent(accounts: Mapping[str, Account]) -> str:
    budget = next(iter(accounts.values())).budget
    return f"spent: at most ${budget.spent:.4f}, of max_cost={budget.limit:g}"


def _cost_notes(settings: BenchSettings, trials: list[Trial], accounts: Mapping[str, Account]) -> Iterator[str]:
    """Yield notes on models without a price, on dollars that are an upper bound, and on what is spent of `max_cost`."""
    if settings.prices is not None:
        for model in dict.fromkeys(trial.model for trial in trials if trial.model and not trial.price):
            yield f"{model}: no cost in dollars, because {settings.prices} has no price for it"
    bounded: Counter[str | None] = Counter()
    for trial in trials:
        if trial.price:
            bounded[trial.model] += sum(scored.bounded for scored in trial.scored.values())
    for judge, calls in bounded.items():
        if calls:
            yield f"{judge}: dollars are an upper bound: {calls} calls did not report their tokens"
    if accounts:
        yield _spent(accounts)


def failure_notes(trial: Trial) -> Iterator[str]:
    """Yield a line for each of the most frequent reasons why answers have no score, and one for the rest.

    Reasons that differ only in their numbers count as one, and the first of them is shown.
    """
    kinds = status_kinds(Counter(_missing(trial)))
    for kind in kinds[:REASONS]:
        more = f" (and {kind.total - 1} more like it)" if kind.total > 1 else ""
        yield f"{trial.label}: an answer without a score: {kind.first}{more}"
    if rest := sum(kind.total for kind in kinds[REASONS:]):
        yield f"{trial.label}: {rest} more answers without a score, for other reasons: see {trial.file}"


def _missing(trial: Trial) -> list[str]:
    """Return the status of every answer without a score."""
    return [score.status for scored in trial.scored.values() for score in scored.scores if score.value is None]
