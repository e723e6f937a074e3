"""Runs an experiment: answers once, then each arm and seed, a result file as it ends, tables after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from eval_benchmarks.bench_settings import BenchSettings, read_settings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.model_checks import check_models
from experiments.arm_results import check_ratios, identity, is_done, read_json, result_row
from experiments.estimates import read_results
from experiments.plan import (
    BASE,
    Command,
    Experiment,
    Job,
    plan_answers,
    plan_bench,
    plan_jobs,
    read_experiment,
)
from experiments.report import write_report
from rag_zeval.files import Row, write_json
from rag_zeval.stages.config import load_config

LAST_WORDS = 3  # lines of a failed stage's output that are shown


def run(config: DictConfig) -> int:
    """Train and measure what has no result file yet, then write tables and figures; 1 if anything failed.

    Raises InputError, before anything is trained, for settings that do not fit, also to the result files there are.
    """
    experiment = read_experiment(config)
    if config.only_tables:
        write_report(config, experiment)
        return 0
    work = Work(config, experiment)
    todo = work.todo()
    read_results(experiment)  # files that do not belong together are refused now, not after hours
    total = len(work.jobs)
    print(f"{experiment.name}: {total - len(todo)} of {total} results are there, in {experiment.results}")
    failed = work.do(todo) if todo else []
    write_report(config, experiment)
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    return 1 if failed else 0


class Work:
    """The jobs of an experiment, and how each is done."""

    def __init__(self, config: DictConfig, experiment: Experiment):
        self.config, self.experiment = config, experiment
        self.answers = plan_answers(config, experiment)
        self.jobs = plan_jobs(config, experiment)
        bench = plan_bench(config, experiment, self.jobs[0])
        settings = read_settings(load_config("bench", bench.words), BenchSettings)
        check_models(settings)
        self.benchmarks: Sequence[Benchmark] = load_benchmarks(settings)[0]
        check_ratios(self.benchmarks)
        self.identities = {
            job.name: identity(job, self.answers.settings, self.benchmarks, bench.settings) for job in self.jobs
        }
        self.stages = Stages()

    def todo(self) -> list[Job]:
        """The jobs without a result."""
        path = self.experiment.result
        return [job for job in self.jobs if not is_done(path(job.arm, job.seed), self.identities[job.name])]

    def do(self, todo: Sequence[Job]) -> list[str]:
        """Do the jobs, some at a time; a line for each that failed. A job that fails does not stop the others."""
        if any(job.commands for job in todo):
            try:
                self.stages.run(self.answers, self.experiment.runs / "synthesize.log", "answers")
            except StageError as error:
                return [f"answers: {error}"]
        failed, left = [], TimeLeft(len(todo))
        with ThreadPoolExecutor(self.config.jobs) as pool:
            futures = {pool.submit(self._do, job, f"{at} of {len(todo)}"): job for at, job in enumerate(todo, 1)}
            try:
                for future in as_completed(futures):
                    job = futures[future]
                    try:
                        row = future.result()
                    except StageError as error:
                        failed.append(f"{job.name}: {error}")
                        print(failed[-1], flush=True)
                        continue
                    write_json(self.experiment.result(job.arm, job.seed), row)
                    print(f"{job.name}: done in {sum(row['minutes'].values()):.1f} min; {left.after(job)}", flush=True)
                    write_report(self.config, self.experiment, quiet=True)
            except BaseException:
                self.stages.stop()
                pool.shutdown(cancel_futures=True)
                raise
        return failed

    def _do(self, job: Job, place: str) -> Row:
        print(f"{job.name}: {place}", flush=True)
        folder = self.experiment.folder(job)
        bench = plan_bench(self.config, self.experiment, job)
        for command in (*job.commands, bench):
            self.stages.run(command, folder / f"{command.stage}.log", job.name, folder / "minutes.json")
        minutes = read_json(folder / "minutes.json")
        made_of = {**self.identities[job.name], "minutes": minutes, "jobs": self.config.jobs}
        return result_row(self.experiment, job, self.benchmarks, made_of)


class StageError(Exception):
    """A stage ended with an error; the message is one line."""


class Stages:
    """Stages as processes of their own, one for each thread that calls."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, command: Command, log: Path, name: str, minutes: Path | None = None) -> None:
        """Run a stage to its end; its output goes to `log` and, but for the bench's tables, to the terminal.

        `minutes`: a JSON file to which the stage's wall-clock is added as it goes, so that a run that was cut off and
        taken up again counts all of it. Raises StageError.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        started, before = time.monotonic(), _minutes(minutes)
        last: list[str] = []
        with self._process(command) as process, open(log, "a", encoding="utf-8") as file:
            for line in process.stdout or ():
                file.write(line)
                file.flush()
                last = [*last, line.strip()][-LAST_WORDS:]
                if command.stage != "bench":
                    print(f"{name} | {line.rstrip()}", flush=True)
                _add(minutes, before, command.stage, started)
        _add(minutes, before, command.stage, started)
        if process.returncode:
            raise StageError(f"{command.stage} ended with code {process.returncode} ({log}): {' / '.join(last)}")

    @contextmanager
    def _process(self, command: Command) -> Iterator[subprocess.Popen[str]]:
        """The stage's process, which has ended afterwards."""
        with self._lock:
            if self._stopped:
                raise StageError("stopped")
            process = subprocess.Popen(
                [sys.executable, *command.argv],
                env={
                    "OMP_NUM_THREADS": "1",
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                },  # more threads get in each other's way
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
            self._running.add(process)
        with process:
            try:
                yield process
            except BaseException:
                process.terminate()
                raise
            finally:
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """Ask the stages that run to end, and start no other; each leaves its files so that it can be taken up."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def _minutes(path: Path | None) -> dict[str, float]:
    return json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}


def _add(path: Path | None, before: Mapping[str, float], stage: str, started: float) -> None:
    if path:
        spent = before.get(stage, 0.0) + (time.monotonic() - started) / 60
        write_json(path, {**before, stage: round(spent, 2)})


class TimeLeft:
    """How long the jobs that are left will take, going by those that ended in this run."""

    def __init__(self, jobs: int):
        self.jobs, self.done, self.trained = jobs, 0, 0
        self.started = time.monotonic()

    def after(self, job: Job) -> str:
        """Called as a job ends: `4 of 19 done, about 210 min left`. BASE, which is not trained, tells nothing."""
        self.done += 1
        if job.arm == BASE:
            self.started = time.monotonic()
            return f"{self.done} of {self.jobs} done"
        self.trained += 1
        minutes = (time.monotonic() - self.started) / 60 / self.trained * (self.jobs - self.done)
        return f"{self.done} of {self.jobs} done, about {minutes:.0f} min left"
