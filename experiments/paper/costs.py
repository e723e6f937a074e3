"""What a plan costs: calls and tokens of its runs, as the judge by the letter needs them, and hours of trainings."""

from __future__ import annotations

from collections.abc import Sequence

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.bench_settings import read_settings as read_bench
from eval_benchmarks.datasets.registry import load_benchmarks
from eval_benchmarks.expected_calls import HEADS, expected_calls
from eval_benchmarks.output.table import NONE, Table
from experiments.paper.arms import Arms
from experiments.paper.paper_settings import PaperSettings
from experiments.paper.runs import BenchRun
from experiments.plan import RL, Command
from rag_zeval.scoring.prices import read_prices
from rag_zeval.stages.config import load_config
from train.derived_keys import derived_keys
from train.dry_run import check_answers_to_come, checked_by_verl, sized
from train.model_shape import read_shape
from train.plan import count_steps, plan_disk
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import build

PAPER_STEPS, PAPER_HOURS, PAPER_GPUS = 343, 20, 8  # of the paper's training, on H20 (A.3)
TRAINING_HEADS = ("run", "model", "there", "verl's checks", "steps", "hours", "disk")


def plan_table(runs: Sequence[BenchRun], settings: PaperSettings) -> Table:
    """The lines of the bench's own dry run (`eval_benchmarks.expected_calls`) for each run, behind its name."""
    prices = read_prices(settings.prices) if settings.prices else {}
    lines = []
    for run in runs:
        bench = read_bench(load_config("bench", [f"profile={settings.profile}", *run.words]), BenchSettings)
        for expected in expected_calls(bench, load_benchmarks(bench)[0]):
            lines.append((run.judge, *expected.cells(bench.judge.reply_tokens_per_second, prices)))
    return Table("what would run", ("run", *HEADS), lines)


def _training(command: Command) -> tuple[str, str, str, str] | None:
    """Whether verl takes its configuration, its steps, hours and disk; None where verl's trainer is not what is run.

    Raises InputError for a configuration that verl refuses.
    """
    if command.stage != RL:
        return None
    settings = read_settings(TrainSettings, load_config(RL, command.words))
    rows = sum(stage.rows or 0 for stage in settings.stages)
    verl = build(settings.verl, derived_keys(settings, RunFolder(settings.out_dir), 0, rows))
    unchecked, steps = checked_by_verl(verl), count_steps(verl, rows)
    check_answers_to_come(settings)
    shape, _ = read_shape(settings.base_model)
    disk = plan_disk(shape, verl, steps, settings.export).total if shape else None
    as_there = verl.trainer.nnodes * verl.trainer.n_gpus_per_node == PAPER_GPUS and settings.platform == "gpu"
    hours = f"{PAPER_HOURS * steps / PAPER_STEPS:.0f}" if as_there else NONE
    return unchecked or "pass", str(steps), hours, sized(disk) if disk else NONE


def trainings_table(names: Sequence[str], arms: Arms) -> Table:
    """A line for each model that is trained here: its steps, and on 8 GPUs the paper's hours for as many."""
    lines = []
    for name in names:
        run = arms.runs[name]
        there = "there" if arms.is_there(name) else "missing"
        lines.append((name, run.model, there, *(_training(run.commands[-1]) or [NONE] * 4)))
    return Table("models that are trained here", TRAINING_HEADS, lines)
