"""What a plan costs: calls and tokens of its runs, as the rule-based mock judge needs them; hours of its trainings."""

from collections.abc import Sequence

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.expected_calls import HEADS, expected_calls_table
from eval_benchmarks.output.table import NONE, Table
from experiments.arm_commands import RL, StageCommand
from experiments.paper.bench_runs import BenchRun
from experiments.paper.paper_settings import PaperSettings
from experiments.paper.trained_judges import TrainedJudges
from rag_zeval.scoring.prices import read_prices
from rag_zeval.stages.config import check_settings, load_config
from train.derived_keys import derived_keys
from train.model_shape import read_shape
from train.plan import check_answers_to_come, checked_by_verl, count_steps, plan_disk, sized
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import build

PAPER_STEPS, PAPER_HOURS, PAPER_GPUS = 343, 20, 8  # of the paper's training, on H20 (A.3)
TRAINING_HEADS = ("run", "model", "there", "verl's checks", "steps", "hours", "disk")


def plan_table(runs: Sequence[BenchRun], settings: PaperSettings) -> Table:
    """The lines of the bench's own dry run (`eval_benchmarks.expected_calls`) for each run, behind its name."""
    prices = read_prices(settings.prices) if settings.prices else {}
    lines: list[tuple[str, ...]] = []
    for run in runs:
        bench = check_settings(BenchSettings, load_config("bench", run.words))
        [table], _ = expected_calls_table(bench, prices)
        lines += [(run.judge, *line) for line in table.lines]
    return Table("what would run", ("run", *HEADS), lines)


def _training(command: StageCommand) -> tuple[str, str, str, str] | None:
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


def trainings_table(names: Sequence[str], judges: TrainedJudges) -> Table:
    """A line for each model that is trained here: its steps, and on 8 GPUs the paper's hours for as many."""
    lines = []
    for name in names:
        run = judges.runs[name]
        there = "there" if judges.is_there(name) else "missing"
        lines.append((name, run.model, there, *(_training(run.commands[-1]) or [NONE] * 4)))
    return Table("models that are trained here", TRAINING_HEADS, lines)
