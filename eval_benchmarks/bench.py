"""The benchmark stage: load data, score row by row, resume, summarise."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.text import Text

from eval_benchmarks.bench_settings import BenchSettings, read_settings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import BothOrders, has_pairs
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.dry_run import say
from eval_benchmarks.in_pieces import InPieces
from eval_benchmarks.jobs import LeaveOut, ScoringJob, jobs, open_accounts, open_claim_checker
from eval_benchmarks.model_checks import check_models
from eval_benchmarks.output.run_files import write_run_files
from eval_benchmarks.output.tables import open_console, show
from eval_benchmarks.run_folder import write_manifest
from eval_benchmarks.trials import Trial, scorer_name
from rag_zeval.budget import Account, Budget, BudgetSpent, Price
from rag_zeval.errors import InputError
from rag_zeval.files import write_text
from rag_zeval.progress import Progress
from rag_zeval.rows import RowWriter, StoredRows
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.prices import price_of, read_prices
from rag_zeval.scoring.row_loop import Work, rows_to_retry, score_rows, take_out
from rag_zeval.scoring.spending import Spending
from rag_zeval.stages.config import stored

REASONS = 5  # reasons for missing scores shown of each scorer


def run(config: DictConfig) -> int:
    """Score everything the configuration names, write `out_dir`, print the tables; or only say what it would ask.

    0, or 1 after a line on stderr: if a judge gave a benchmark no score at all (after everything is written), and when
    `max_cost` is reached (then the rows are kept, and no tables are written).

    Raises InputError, before any model is loaded, for configuration, data or models that cannot be used.
    """
    console = open_console()
    settings = read_settings(config, BenchSettings)
    prices = read_prices(settings.prices) if settings.prices is not None else {}
    if settings.dry_run:
        show(console, *say(settings, prices))
        return 0
    check_models(settings)
    accounts = open_accounts(settings, prices)
    benchmarks, missing = load_benchmarks(settings)
    left_out: list[str] = []
    out = Path(settings.out_dir)
    write_text(out / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(stored(config))))

    def leave_out(line: str) -> None:
        left_out.append(line)
        console.print(Text(f"left out: {line}", style="yellow"), soft_wrap=True)

    for line in missing:
        leave_out(line)
    trials: list[Trial] = []
    try:
        for trial in _trials(settings, benchmarks, console, prices, accounts, leave_out):
            trials.append(trial)
    except BudgetSpent as left:
        print(f"stopped at max_cost={settings.max_cost}: {left}. {_spent(accounts)}", file=sys.stderr)
        print("run the same command with a larger max_cost to resume", file=sys.stderr)
        return 1
    if not trials:
        raise InputError("nothing could be scored: " + "; ".join(left_out))
    notes = [f"left out: {line}" for line in left_out] + [line for trial in trials for line in _failures(trial)]
    if prices:
        unpriced = dict.fromkeys(trial.model for trial in trials if trial.model and not trial.price)
        notes += [f"{model}: no cost in dollars, because {settings.prices} has no price for it" for model in unpriced]
    notes += _bounds(trials)
    if accounts:
        notes.append(_spent(accounts))
    sections, notes = write_run_files(out, trials, notes, settings.bootstrap.draws, settings.bootstrap.seed)
    show(console, sections, notes)
    write_manifest(out, config, benchmarks, trials, notes)
    console.print(Text(f"tables: {out / 'tables.html'}"), soft_wrap=True)
    if silent := [
        f"{_name(trial)}: {_missing(trial)[0]}" for trial in trials if trial.model and not _has_a_score(trial)
    ]:
        print("error: nothing has a score: " + "; ".join(silent), file=sys.stderr)
    return 1 if silent else 0


def _trials(
    settings: BenchSettings,
    benchmarks: list[Benchmark],
    console: Console,
    prices: Mapping[str, Price],
    accounts: Mapping[str, Account],
    leave_out: LeaveOut,
) -> Iterator[Trial]:
    """Everything scored, job by job. Raises BudgetSpent when a job is not ended because the money is."""
    out = Path(settings.out_dir)
    checker = open_claim_checker(settings, leave_out)
    with Progress(console) as progress:
        for job in jobs(settings, benchmarks, checker, accounts, leave_out):
            price, account = price_of(job.model, prices), accounts.get(job.model or "")
            trial = _trial(job, out, progress, price, account)
            yield trial
            if checker and CheckedClaims.name in settings.scorers:
                if isinstance(job.scorer, RagZeval):
                    checked = CheckedClaims(checker, trial.scored, trial.identity)
                    yield _trial(replace(job, scorer=checked), out, progress, price, None)
                elif isinstance(job.scorer, SftRanker):
                    leave_out(f"{job.benchmark.name}, {CheckedClaims.name} by {job.model}: a ranker writes no claims")
                elif isinstance(job.scorer, InPieces) and job.scorer.name == RagZeval.name:
                    leave_out(
                        f"{job.benchmark.name}, {CheckedClaims.name} by {job.model}: references are judged in pieces, "
                        "each with claims of its own"
                    )
            if settings.judge.swapped and isinstance(job.scorer, RagZeval | SftRanker) and has_pairs(job.benchmark):
                swapped = BothOrders(job.benchmark, trial.scored)
                yield _trial(replace(job, benchmark=swapped), out, progress, price, account)
            del job  # and with it a model, before the next is loaded


def _spent(accounts: Mapping[str, Account]) -> str:
    budget = next(iter(accounts.values())).budget
    return f"spent: at most ${budget.spent:.4f}, of max_cost={budget.limit:g}"


def _bounds(trials: Iterable[Trial]) -> Iterator[str]:
    """A line for each model of whose calls some did not tell their tokens."""
    calls: Counter[str] = Counter()
    for trial in trials:
        if trial.price:
            calls[trial.model or ""] += sum(scored.bounded for scored in trial.scored.values())
    for model, count in calls.items():
        if count:
            yield f"{model}: dollars are an upper bound: {count} calls did not report their tokens"


def _trial(job: ScoringJob, out: Path, progress: Progress, price: Price | None, account: Account | None) -> Trial:
    scored = score(job, out / "rows" / job.file, progress, price, account.budget if account else None)
    names = (job.benchmark, job.scorer.name, job.model, job.file)
    return Trial(*names, job.scorer.identity, job.scorer.prompt_hash, scored, job.trial, price)


def score(
    job: ScoringJob, path: Path, progress: Progress, price: Price | None = None, budget: Budget | None = None
) -> Mapping[str, Scored]:
    """Score the examples that the row file lacks, and again those of which no reply came.

    Raises BudgetSpent if rows are left because the budget is spent; those that something was paid for are written.
    """
    examples = {example.id: example for example in job.benchmark.examples}
    spending = Spending(price)
    with RowWriter(path) as writer:
        for row in writer.done.values():
            spending.add(row)
        unread = [row["id"] for row in writer.done.values() if not row.get("final")]
        take_out(writer, rows_to_retry(unread, spending, budget))
        score_rows(Work(job.label, job.scorer, examples), writer, progress, spending)
    if spending.unasked:
        raise BudgetSpent(f"{spending.unasked} rows of {job.label} were not judged, or not completely")
    return StoredRows(path, Scored.from_row)


def _failures(trial: Trial) -> Iterator[str]:
    """A line for each of the usual reasons why answers have no score, and one for the rest.

    Reasons that differ only in their numbers count as one, of which the first is shown.
    """
    alike: dict[str, list[str]] = {}
    for status in _missing(trial):
        alike.setdefault(re.sub(r"\d+", "N", status), []).append(status)
    groups = sorted(alike.values(), key=len, reverse=True)
    for statuses in groups[:REASONS]:
        more = f" (and {len(statuses) - 1} more like it)" if len(statuses) > 1 else ""
        yield f"{_name(trial)}: an answer without a score: {statuses[0]}{more}"
    if rest := sum(map(len, groups[REASONS:])):
        yield f"{_name(trial)}: {rest} more answers without a score, for other reasons: see rows/{trial.file}"


def _has_a_score(trial: Trial) -> bool:
    return any(value is not None for scored in trial.scored.values() for value in scored.values)


def _missing(trial: Trial) -> list[str]:
    """The status of every answer without a score."""
    return [score.status for scored in trial.scored.values() for score in scored.scores if score.value is None]


def _name(trial: Trial) -> str:
    number = f", trial {trial.number + 1}" if trial.number else ""
    return f"{trial.benchmark.name}, {scorer_name(trial.scorer, trial.model)}{number}"
