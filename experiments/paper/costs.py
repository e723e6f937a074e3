"""The cost of a plan: hours and disk of its trainings, and calls and tokens of its runs of the bench.

Calls and tokens are those that the mock judge would need.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.expected_calls import HEADS, ExpectedCalls, expected_calls
from eval_benchmarks.output.table import NONE, Table
from eval_benchmarks.plan import plan_run
from experiments.arm_commands import RL, ArmRun
from experiments.arm_results import read_results
from experiments.paper.bench_runs import BenchRun, TablesPlan
from experiments.paper.methods import RANKER
from experiments.paper.trained_judges import TrainedJudges
from rag_zeval.scorers.registry import JUDGE
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.estimate import PlannedCalls
from rag_zeval.scoring.prices import price_of, read_prices
from rag_zeval.stages.config import check_settings, load_config
from train.derived_keys import derived_keys, sft_derived_keys
from train.model_shape import read_shape
from train.plan import (
    Disk,
    check_answers_to_come,
    checked_by_verl,
    count_steps,
    lack_of_disk,
    plan_disk,
    planned_steps,
    sized,
)
from train.run_folder import RunFolder
from train.settings import SFTSettings, TrainSettings, read_settings
from train.verl_config import SFT, build

PAPER_STEPS, PAPER_HOURS, PAPER_GPUS = 343, 20, 8  # the paper's training, on H20 GPUs (A.3)
PAPER_ROLLOUTS = PAPER_STEPS * 32 * 8
PAPER_PARAMETERS = 7_615_616_512  # of Qwen2.5-7B-Instruct
TRAINING_HEADS = ("run", "model", "there", "verl's checks", "steps", "hours", "GPU-hours", "disk, peak", "disk, kept")
HOURS = (
    f"hours on GPUs: the paper's {PAPER_HOURS} on {PAPER_GPUS} GPUs for {PAPER_STEPS} steps, scaled by rollouts and "
    "parameters; a row of the ranker counts as a rollout, which is too many. On a CPU: as measured in the experiment's "
    "result files, all stages together. Steps '-': a ranker that takes all rows its answers give"
)


@dataclass(frozen=True)
class TrainingCosts:
    """The cost of one training.

    checks: the result of verl's checks of the configuration. steps, hours, gpu_hours, disk: None if unknown.
    """

    checks: str
    steps: int | None
    hours: float | None
    gpu_hours: float | None
    disk: Disk | None


def training_costs(run: ArmRun, judges: TrainedJudges) -> TrainingCosts:
    """Return the costs of the last stage of an arm's training; on a CPU the hours are those of all its stages.

    Supervised fine-tuning has no checks, and a row of it counts as a rollout. Raises InputError for a configuration
    that verl refuses.
    """
    command, checks, rollouts = run.commands[-1], NONE, 1
    config = load_config(command.stage, command.words)
    settings: TrainSettings | SFTSettings
    steps: int | None
    if command.stage == RL:
        settings = read_settings(TrainSettings, config)
        rows = sum(stage.rows or 0 for stage in settings.stages)
        verl = build(settings.verl, derived_keys(settings, RunFolder(settings.out_dir), 0, rows))
        unchecked, steps = checked_by_verl(verl), count_steps(verl, rows)
        checks = f"not checked here: {unchecked}" if unchecked else "pass"
        check_answers_to_come(settings)
        rollouts = verl.actor_rollout_ref.rollout.n
    else:
        settings = read_settings(SFTSettings, config)
        verl = build(settings.verl, sft_derived_keys(settings, RunFolder(settings.out_dir), 0), SFT)
        steps = planned_steps(verl, settings.rows)
    shape, _ = read_shape(settings.base_model)
    disk = plan_disk(shape, verl, steps or 1, settings.export) if shape else None
    if not judges.on_gpus:
        minutes = [result.minutes for result in read_results(judges.experiment)[run.arm].values()]
        return TrainingCosts(checks, steps, sum(minutes) / len(minutes) / 60 if minutes else None, None, disk)
    if not steps or not shape:
        return TrainingCosts(checks, steps, None, None, disk)
    drawn, gpus = steps * verl.data.train_batch_size * rollouts, verl.trainer.nnodes * verl.trainer.n_gpus_per_node
    gpu_hours = PAPER_HOURS * PAPER_GPUS * drawn / PAPER_ROLLOUTS * (shape.parameters / PAPER_PARAMETERS)
    return TrainingCosts(checks, steps, gpu_hours / gpus, gpu_hours, disk)


def trainings_to_do(names: Sequence[str], judges: TrainedJudges) -> dict[str, TrainingCosts]:
    """Return the costs of each judge that must still be trained. Raises InputError as `training_costs` does."""
    todo = (name for name in names if judges.runs[name].commands and not judges.is_there(name))
    return {name: training_costs(judges.runs[name], judges) for name in todo}


def trainings_table(names: Sequence[str], judges: TrainedJudges, todo: Mapping[str, TrainingCosts]) -> Table:
    """Return a table with a line for each judge, and the total of those that must still be trained."""
    lines = []
    for name in names:
        run, costs = judges.runs[name], todo.get(name)
        if costs is None:
            lines.append((name, run.model, "there", *[NONE] * 6))
            continue
        steps = NONE if costs.steps is None else f"{costs.steps:,}"
        disk = [costs.disk.total, costs.disk.kept] if costs.disk else [None, None]
        sizes = (sized(size) if size else NONE for size in disk)
        hours = map(_hours, (costs.hours, costs.gpu_hours))
        lines.append((name, run.model, "missing", costs.checks, steps, *hours, *sizes))
    sums = [_sum([getattr(costs, what) for costs in todo.values()]) for what in ("hours", "gpu_hours")]
    kept = sum(costs.disk.kept for costs in todo.values() if costs.disk)
    empty = [NONE] * 3
    last = ("total", f"{len(todo)} to train", *empty, *map(_hours, sums), sized(peak_disk(todo.values())), sized(kept))
    return Table("models that are trained here, one after the other", TRAINING_HEADS, [*lines, last])


def peak_disk(trainings: Iterable[TrainingCosts]) -> float:
    """Return the most bytes that trainings need at a time, if they run one after the other.

    These are what the finished ones keep and what the running one needs.
    """
    kept = peak = 0.0
    for disk in (costs.disk for costs in trainings if costs.disk):
        peak = max(peak, kept + (disk.total or disk.kept))
        kept += disk.kept
    return max(peak, kept)


def lacking_disk(todo: Mapping[str, TrainingCosts], judges: TrainedJudges) -> str | None:
    """Return a message if the trainings in `todo` do not fit onto the disk, else None."""
    folders = [judges.experiment.folder(judges.runs[name]) for name in todo]
    return lack_of_disk(peak_disk(todo.values()), str(judges.experiment.runs), folders)


def _hours(hours: float | None) -> str:
    return NONE if hours is None else f"{hours:,.{0 if hours >= 10 else 1}f}"


def _sum(numbers: Sequence[float | None]) -> float | None:
    """Sum the known numbers. Returns None if none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def plan_table(plan: TablesPlan) -> Table:
    """Return the lines of the bench's own dry run (`eval_benchmarks.expected_calls`) for each run, and their total."""
    prices = read_prices(plan.settings.prices) if plan.settings.prices else {}
    lines: list[tuple[str, ...]] = []
    planned: list[PlannedCalls] = []
    hours, dollars = list[float | None](), list[float | None]()
    for run in plan.bench:
        bench = check_settings(BenchSettings, load_config("bench", run.words))
        for one in _expected(run, bench, plan.judges):
            lines.append((run.judge, *one.cells(bench.judge.reply_tokens_per_second, prices)))
            if one.asked:
                planned.append(one.asked)
                hours.append(one.hours(bench.judge.reply_tokens_per_second))
                tokens = one.asked.prompt_tokens, one.asked.completion_tokens
                price = price_of(one.planned.model, prices)
                dollars.append(None if price is None else price.of(*tokens))
    numbers = [(one.calls, one.prompt_tokens, one.completion_tokens) for one in planned]
    sums = [f"{sum(column):,.0f}" for column in zip(*numbers, strict=True)]
    paid, taken = _sum(dollars), _sum(hours)
    last = ["total", *[NONE] * 5, *(sums or [NONE] * 3), NONE if taken is None else f"{taken:.2f}"]
    return Table("what would run", ("run", *HEADS), [*lines, (*last, NONE if paid is None else f"{paid:.2f}")])


def _expected(run: BenchRun, bench: BenchSettings, judges: TrainedJudges) -> Iterator[ExpectedCalls]:
    """Return the calls that a run will make. A judge that is trained here gets the prompt that it is trained on."""
    benchmarks, _ = find_benchmarks(bench)
    trained = judges.runs.get(run.judge)
    if trained and trained.arm != RANKER and trained.commands and bench.judge.variant is None:
        variant = trained.commands[-1].settings["variant"]
        parts = {name: getattr(bench, name).model_copy(update={"variant": variant}) for name in ("judge", "nano_eval")}
        bench = bench.model_copy(update=parts)
    planned, _ = plan_run(bench, benchmarks)
    if trained and trained.arm == RANKER:
        planned = [replace(one, scorer=SftRanker.name) if one.scorer == JUDGE else one for one in planned]
    yield from expected_calls(bench, planned)
