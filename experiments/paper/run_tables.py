"""`make paper` fills the paper's tables: each cell is measured here, or says what it needs.

It reads finished runs of the bench and starts the missing ones, one for each benchmark and model. After an
interruption, run the same command again to resume.
"""

from omegaconf import DictConfig

from eval_benchmarks.output.table import open_console, show
from experiments.arm_commands import answers_command
from experiments.paper.bench_runs import TablesPlan, is_there, plan_tables, sources
from experiments.paper.cells import count, fill, mark, read_finished
from experiments.paper.costs import HOURS, lacking_disk, plan_table, trainings_table, trainings_to_do
from experiments.paper.figures import draw_figures, judged_example
from experiments.paper.methods import ARM_TABLES, ARMS_BENCHMARK
from experiments.paper.paper_settings import PaperSettings, mock_judge
from experiments.paper.tables import all_tables, open_rows, write_page
from rag_zeval.errors import InputError
from rag_zeval.stages.config import check_settings


def run_tables(config: DictConfig) -> int:
    """Fill the tables, or with `dry_run` only print the plan. Returns 1 if a training or a run of the bench failed."""
    plan = plan_tables(check_settings(PaperSettings, config))
    if plan.settings.dry_run:
        show_plan(plan)
        return 0
    with mock_judge(plan.settings):
        return fill_tables(plan)


def show_plan(plan: TablesPlan) -> None:
    """Print what would be run, in order, and what it costs."""
    judges, names = plan.judges, [*plan.trained, *plan.waiting]
    notes = [*_mocked(plan), *([HOURS] if names else [])]
    notes += [f"waits for data, see below: {', '.join(plan.waiting)}"] if plan.waiting else []
    notes += [f"answers: {answers_command(judges.experiment).line}"] if names else []
    notes += [f"{name}: {command.line}" for name in names for command in judges.runs[name].commands]
    notes += [] if plan.bench else ["no run of the bench can be planned: see what is missing below"]
    todo = trainings_to_do(names, judges)
    notes += [f"warning: {line}" for line in [lacking_disk(todo, judges)] if line]
    absent = {name: spec for name in plan.settings.models if (spec := plan.settings.spec(name)) and not is_there(spec)}
    notes += [f"models.{name}: no model in {spec} yet; a run leaves its rows open" for name, spec in absent.items()]
    try:
        plan.check_bench()
    except InputError as error:
        notes.append(f"a run would be refused: {error}")
    tables = [trainings_table(names, judges, todo)] if names else []
    tables += [plan_table(plan)] if plan.bench else []
    show(open_console(), tables, [*notes, *open_rows(plan.lacking)])


def fill_tables(plan: TablesPlan) -> int:
    """Train and run what is missing, write the tables and figures, and return the exit status."""
    plan.check_bench()
    if line := lacking_disk(trainings_to_do(plan.trained, plan.judges), plan.judges):
        raise InputError(f"{line}; move runs_dir of configs/experiments.yaml, or train fewer arms")
    failures = plan.judges.train(plan.trained)
    runs = [run for run in plan.bench if run.judge not in plan.judges.runs or plan.judges.is_there(run.judge)]
    ended = {run.folder: run.do() for run in runs}
    finished = read_finished(run for run in runs if ended[run.folder])
    failures += [f"{folder.name}: the bench failed" for folder, well in ended.items() if not well]

    lines = {
        number: mark([fill(row, sources(row, plan.judges), finished, plan.lacking.get(row)) for row in rows])
        for number, rows in plan.rows.items()
    }
    notes = [*_mocked(plan), *_other_judges(plan), *failures]
    case = judged_example(lines, plan.settings.example)
    if case is None and {1, 2} & set(lines):
        named = "" if plan.settings.example is None else f" with the id {plan.settings.example}"
        notes.append(f"Figures 6, 7 (cases.html): need an example{named} that qwen-7b judged before and after training")
    if 7 in plan.settings.tables and not plan.judges.ranker_data.is_file():
        notes.append(f"Table 7: our own counts need {plan.judges.ranker_data}")
    figures, about_figures = draw_figures(lines, plan)
    page = write_page(plan, lines, [*notes, *about_figures], figures, case)
    counts = [f"{cells} cells: {reason}" for reason, cells in count(lines).items()] if lines else []
    show(open_console(), all_tables(plan, lines, intervals=False), counts)
    print(f"page: {page}")
    return 1 if failures else 0


def _mocked(plan: TablesPlan) -> list[str]:
    names = ", ".join(plan.settings.mocked)
    said = "the rule-based mock judge stands in. It is not a model: its values only show what the tables look like"
    return [f"{names}: {said}"] if names else []


def _other_judges(plan: TablesPlan) -> list[str]:
    """Return a note if Tables 3 to 5 compare other judges than the paper does."""
    benchmark = plan.settings.benchmark_of_arms
    if benchmark == ARMS_BENCHMARK or not set(ARM_TABLES) & set(plan.rows):
        return []
    base = next(iter(plan.judges.runs.values())).base
    return [f"Tables 3 to 5: judges trained from {base}, on {benchmark}; the paper's are of 7B, on {ARMS_BENCHMARK}"]
