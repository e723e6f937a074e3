"""Runs an experiment: makes the answers once, then trains and measures each arm and seed.

After each arm and seed it writes the result file and updates tables and figures.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean

from omegaconf import DictConfig

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.model_checks import check_models
from eval_benchmarks.plan import unsuited_judge
from experiments.arm_commands import (
    ArmRun,
    Experiment,
    StageCommand,
    answers_command,
    arm_runs,
    bench_command,
    read_experiment,
)
from experiments.arm_report import write_report
from experiments.arm_results import (
    check_answers,
    check_kept,
    identity,
    is_done,
    read_results,
    result_row,
    write_result,
)
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_json, write_json
from rag_zeval.models.folder import read_card
from rag_zeval.scorers.registry import JUDGE
from rag_zeval.stages import processes
from rag_zeval.stages.config import check_settings, load_config

LAST_WORDS = 3  # lines of a failed stage's output that are shown


def run_experiment(config: DictConfig) -> int:
    """Train and measure every arm and seed without a result file, then write tables and figures.

    Returns 1 if anything failed, else 0. Raises InputError, before it trains anything, for settings that are wrong or
    do not match the existing result files.
    """
    experiment = read_experiment(config)
    failed = [] if experiment.only_tables else ExperimentWork(experiment).do()
    write_report(experiment)
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    return 1 if failed else 0


class ExperimentWork:
    """The work of an experiment: what to train and measure, and how."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.answers = answers_command(experiment)
        self.runs = arm_runs(experiment)
        bench = bench_command(experiment, self.runs[0])
        settings = check_settings(BenchSettings, load_config("bench", bench.words))
        check_models(settings)
        self.benchmarks: Sequence[Benchmark]
        self.benchmarks, self.left_out = load_benchmarks(settings)
        check_kept(self.benchmarks)
        for benchmark in self.benchmarks:
            if unsuited := unsuited_judge(settings, benchmark, JUDGE, read_card(self.runs[0].base)):
                raise InputError(f"benchmarks: {benchmark.name} cannot be measured: {unsuited}")
        self.identities = {
            run.name: identity(run, self.answers.settings, self.benchmarks, bench.settings) for run in self.runs
        }
        self.stages = StageProcesses()

    def todo(self) -> list[ArmRun]:
        """Return the arms and seeds without a result file."""
        path = self.experiment.result
        return [run for run in self.runs if not is_done(path(run.arm, run.seed), self.identities[run.name])]

    def do(self) -> list[str]:
        """Train and measure the arms and seeds without a result file, `jobs` at a time.

        Returns a line for each failure. A failed arm does not stop the others; failed answers do.
        """
        todo, total = self.todo(), len(self.runs)
        results = read_results(self.experiment)  # refuses files that cannot be compared now, not after hours
        for line in self.left_out:
            print(f"left out: {line}")
        print(f"{self.experiment.name}: {total - len(todo)} of {total} results exist, in {self.experiment.results}")
        if any(run.commands for run in todo):
            try:
                self.stages.make_answers(self.experiment)
            except StageError as error:
                return [f"answers: {error}"]
            check_answers(self.experiment, results)
        failed, trained = [], []
        with ThreadPoolExecutor(self.experiment.jobs) as pool:
            futures = {pool.submit(self.result, run, f"{at} of {len(todo)}"): run for at, run in enumerate(todo, 1)}
            try:
                for ended, future in enumerate(as_completed(futures), 1):
                    run = futures[future]
                    try:
                        row = future.result()
                    except StageError as error:
                        failed.append(f"{run.name}: {error}")
                        print(failed[-1], flush=True)
                        continue
                    write_result(self.experiment.result(run.arm, run.seed), row)
                    minutes = sum(row["minutes"].values())
                    trained += [minutes] if run.commands else []
                    progress = f"{ended - len(failed)} of {len(todo)} done"
                    if trained:
                        left = mean(trained) * (len(todo) - ended) / self.experiment.jobs
                        progress += f", about {left:.0f} min left"
                    print(f"{run.name}: done in {minutes:.1f} min; {progress}", flush=True)
                    write_report(self.experiment, quiet=True)
            except BaseException:
                self.stages.stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
        return failed

    def result(self, run: ArmRun, place: str) -> Row:
        """Train and measure an arm and seed, and return the content of its result file. Raises StageError."""
        print(f"{run.name}: {place}", flush=True)
        minutes = self.stages.train(self.experiment, run, bench_command(self.experiment, run))
        known = {**self.identities[run.name], "minutes": minutes, "jobs": self.experiment.jobs}
        return result_row(self.experiment, run, self.benchmarks, known)


class StageError(Exception):
    """A stage ended with an error; the message is one line."""


class StageProcesses:
    """Runs stages, each in a process of its own. Threads can share it. To end all stages, set `stopped`."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def make_answers(self, experiment: Experiment) -> None:
        """Make the answers that all arms are trained on, unless they exist. Raises StageError."""
        self.run(answers_command(experiment), experiment.runs / "synthesize.log", "answers")

    def train(self, experiment: Experiment, run: ArmRun, *after: StageCommand) -> dict[str, float]:
        """Train an arm and seed, run the stages `after` it, and return the minutes of each. Raises StageError."""
        folder = experiment.folder(run)
        minutes = folder / "minutes.json"
        for command in (*run.commands, *after):
            self.run(command, folder / f"{command.stage}.log", run.name, minutes)
        return read_json(minutes)

    def run(self, command: StageCommand, log: Path, name: str, minutes: Path | None = None) -> None:
        """Run a stage to its end. Its output goes to `log` and, except for the bench stage, to the terminal.

        minutes: a JSON file with the wall-clock minutes of each stage. It is updated while the stage runs, so that a
        resumed run also counts the time before the interruption. Raises StageError if the stage fails or is stopped,
        and at once if `stopped` is already set.
        """
        if self.stopped.is_set():
            raise StageError("stopped")
        before = read_json(minutes) if minutes and minutes.exists() else {}
        started, last = time.monotonic(), deque[str](maxlen=LAST_WORDS)

        def count() -> None:
            if minutes:
                spent = before.get(command.stage, 0.0) + (time.monotonic() - started) / 60
                write_json(minutes, {**before, command.stage: round(spent, 2)})

        def show(line: str) -> None:
            last.append(line.strip())
            if command.stage != "bench":
                print(f"{name} | {line}", flush=True)
            count()

        one_thread = {"OMP_NUM_THREADS": "1", **os.environ}  # more threads slow each other down
        words = processes.python_module(*command.module_and_words)
        status = processes.run(words, log, show, stop=self.stopped, env=one_thread, append=True)
        count()
        if status is None:
            raise StageError(f"{command.stage} was stopped")
        if status:
            raise StageError(f"{command.stage} ended with code {status} ({log}): {' / '.join(last)}")
