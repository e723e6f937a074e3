"""`make paper`: the paper's tables, each cell measured here or saying what it needs.

Finished runs of the bench are read, those missing are run, one for each model; the same command goes on after a kill.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import read_json, write_json
from rag_zeval.stages.config import check_settings, load_config

if TYPE_CHECKING:
    from experiments.paper.runs import PaperSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a run of the bench failed, 2 the input is wrong, 130 interrupted."""
    words = sys.argv[1:] if argv is None else argv
    config: Any = load_config("paper", words)
    return exit_status(lambda: run(OmegaConf.to_container(config, resolve=True)))


def run(config: Any) -> int:
    from experiments.paper.runs import PaperSettings
    from experiments.paper.stand_in import LITERAL, stand_ins

    settings = check_settings(PaperSettings, config)
    literal = [name for name, spec in settings.models.items() if spec == LITERAL]
    notes = [f"{', '.join(literal)}: the judge by the letter stands in, which is no model"] if literal else []
    with stand_ins(settings.models, settings.literal_port) as models:
        return make(settings.model_copy(update={"models": models}), notes, config["dry_run"])


def make(settings: PaperSettings, notes: Sequence[str], dry_run: bool) -> int:
    """Run what is missing, and write the tables; or only say what would be run."""
    from eval_benchmarks.output.tables import open_console, show
    from experiments.paper.cells import FinishedRuns, count, fill, mark
    from experiments.paper.costs import plan_table, trainings_table
    from experiments.paper.densities import score_densities
    from experiments.paper.methods import BENCHMARKS, RANKER, paper_rows
    from experiments.paper.runs import bench_runs, lacking
    from experiments.paper.settings_tables import ranker_rows_table, settings_table
    from experiments.paper.tables import measured_table, write_tables

    known = sorted([*BENCHMARKS, 6, 7])
    if unknown := [number for number in settings.tables if number not in known]:
        raise InputError(f"tables: there is no {unknown[0]}; there is: {', '.join(map(str, known))}")
    measured = [number for number in settings.tables if number in BENCHMARKS]
    rows = {number: [(row, lacking(row, settings)) for row in paper_rows(number)] for number in measured}
    runs = bench_runs([row for of in rows.values() for row, reason in of if reason is None], settings)
    console = open_console()
    if dry_run:
        commands = [f"{name}: {arm.command(settings.profile)}" for name, arm in settings.arms.items()]
        show(console, [plan_table(runs, settings), trainings_table(settings)], [*notes, *commands])
        return 0
    failed = [run.name for run in runs if not _bench(settings.profile, run.folder, run.words)]
    finished = FinishedRuns([run for run in runs if run.name not in failed])
    lines = {number: mark([fill(row, finished, reason) for row, reason in of], finished) for number, of in rows.items()}
    tables = {number: measured_table(number, of) for number, of in lines.items()}
    if 6 in settings.tables:
        tables[6] = settings_table(settings.profile)
    if 7 in settings.tables:
        tables[7] = ranker_rows_table(Path(settings.arms[RANKER].model).parent)
    tables = dict(sorted(tables.items()))
    out = Path(settings.out_dir)
    notes = [*notes, *(f"{name}: the bench failed" for name in failed)]
    write_tables(out, list(tables.values()), lines, notes, score_densities(lines.get(1, ())))
    show(console, list(tables.values()), [f"{cells} cells: {reason}" for reason, cells in count(lines).items()])
    print(f"page: {out / 'index.html'}")
    return 1 if failed else 0


def _bench(profile: str, folder: Path, words: Sequence[str]) -> bool:
    """Run the bench in a folder, unless it has ended there with the same words; whether it ended well."""
    done = folder / "done.json"
    asked = [f"profile={profile}", *words]
    if done.exists() and read_json(done, list) == asked:
        return True
    print(f"bench: {folder}", flush=True)
    if subprocess.run([sys.executable, "-m", "eval_benchmarks", *asked], check=False).returncode:
        return False
    write_json(done, asked)
    return True


if __name__ == "__main__":
    sys.exit(main())
