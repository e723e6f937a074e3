"""`make paper`: the paper's tables, each cell measured here or saying what it needs.

Finished runs of the bench are read, those missing are run, one for each model; the same command goes on after a kill.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from rag_zeval.files import read_json, write_json
from rag_zeval.stages.config import check_settings, load_config
from rag_zeval.streams import exit_status

if TYPE_CHECKING:
    from experiments.paper.runs import BenchRun, Plan

DONE = "done.json"  # in the folder of a run of the bench: the words it has ended with


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a run of the bench failed, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: run(sys.argv[1:] if argv is None else argv))


def run(words: Sequence[str]) -> int:
    from experiments.paper.paper_settings import PaperSettings
    from experiments.paper.runs import plan_runs
    from experiments.paper.stand_in import LITERAL, serving, with_stand_ins

    config: Any = OmegaConf.to_container(load_config("paper", words), resolve=True)
    settings = check_settings(PaperSettings, config)
    literal = [name for name, spec in settings.models.items() if spec == LITERAL]
    notes = [f"{', '.join(literal)}: the rule-based mock judge stands in, which is not a model"] if literal else []
    models = with_stand_ins(settings.models, settings.literal_port)
    plan = plan_runs(settings.model_copy(update={"models": models}))
    if settings.dry_run:
        return say(plan, notes)
    with serving(settings.literal_port) if literal else nullcontext():
        return make(plan, notes)


def say(plan: Plan, notes: Sequence[str]) -> int:
    """Only what would be run, in order, and what it costs."""
    from eval_benchmarks.output.table import open_console, show
    from experiments.paper.costs import plan_table, trainings_table
    from experiments.paper.tables import open_rows

    arms = plan.arms
    commands = [f"answers: {arms.answers.line}"] if plan.trained else []
    commands += [f"{name}: {command.line}" for name in plan.trained for command in arms.runs[name].commands]
    tables = [trainings_table(plan.trained, arms), plan_table(plan.bench, plan.settings)]
    show(open_console(), tables, [*notes, *commands, *open_rows(plan.lacking)])
    return 0


def make(plan: Plan, notes: Sequence[str]) -> int:
    """Run what is missing, and write the tables and figures."""
    from eval_benchmarks.output.table import open_console, show
    from experiments.paper.cells import FinishedRuns, count, fill, mark
    from experiments.paper.figures import draw_figures, judged_example
    from experiments.paper.methods import ARM_TABLES, ARMS_BENCHMARK, RANKER
    from experiments.paper.runs import check_data
    from experiments.paper.settings_tables import ranker_rows_table, settings_table
    from experiments.paper.tables import measured_table, write_page

    settings, arms = plan.settings, plan.arms
    for run in plan.bench:
        if _has_ended(settings.profile, run):
            check_data(run, settings.profile)
    if settings.benchmark_of_arms != ARMS_BENCHMARK and set(ARM_TABLES) & set(plan.rows):
        base, here = next(iter(arms.runs.values())).base, settings.benchmark_of_arms
        notes = [
            *notes,
            f"Tables 3 to 5: judges trained from {base}, on {here}; the paper's are of 7B, on {ARMS_BENCHMARK}",
        ]
    failures = arms.train(plan.trained)
    runs = [run for run in plan.bench if run.judge not in arms.runs or arms.is_there(run.judge)]
    failed = [run.name for run in runs if not _bench(settings.profile, run)]
    finished = FinishedRuns([run for run in runs if run.name not in failed])
    lines = {
        number: mark([fill(row, finished, plan.lacking.get(row)) for row in rows], finished)
        for number, rows in plan.rows.items()
    }
    tables = {number: measured_table(number, of) for number, of in lines.items()}
    short = {number: measured_table(number, of, intervals=False) for number, of in lines.items()}
    if 6 in settings.tables:
        tables[6] = short[6] = settings_table(settings.profile)
    if 7 in settings.tables:
        tables[7] = short[7] = ranker_rows_table(arms.folder(RANKER))
    out = Path(settings.out_dir)
    notes = [*notes, *failures, *(f"{name}: the bench failed" for name in failed)]
    case = judged_example(lines, settings.example)
    if case is None:
        notes.append("Figures 6, 7 (cases.html): need an example that RAG-Zeval of 7B judged, trained and not")
    write_page(out, [tables[number] for number in sorted(tables)], lines, notes, draw_figures(lines, arms), case)
    counts = [f"{cells} cells: {reason}" for reason, cells in count(lines).items()]
    show(open_console(), [short[number] for number in sorted(short)], counts)
    print(f"page: {out / 'index.html'}")
    return 1 if failures or failed else 0


def _has_ended(profile: str, run: BenchRun) -> bool:
    """Whether the bench has ended in the run's folder with the same words."""
    done = run.folder / DONE
    return done.exists() and read_json(done, list) == [f"profile={profile}", *run.words]


def _bench(profile: str, run: BenchRun) -> bool:
    """Run the bench, unless it has ended with the same words; whether it ended well."""
    if _has_ended(profile, run):
        return True
    asked = [f"profile={profile}", *run.words]
    print(f"bench: {run.folder}", flush=True)
    if subprocess.run([sys.executable, "-m", "eval_benchmarks", *asked], check=False).returncode:
        return False
    write_json(run.folder / DONE, asked)
    return True


if __name__ == "__main__":
    sys.exit(main())
