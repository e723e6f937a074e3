"""Draw training runs by step, on one page. A run need not be finished. Several runs share the same figures."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from experiments.training_runs import Which
from rag_zeval.errors import InputError
from rag_zeval.streams import command_line


def dynamics(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of training runs, such as runs/train/nano.")
    ],
    out_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where to write dynamics.html and dynamics/*.png. Needed for several runs; default: the run's folder."
        ),
    ] = None,
    entailment: Annotated[
        str | None,
        typer.Option(
            metavar="SCORER",
            help="Also draw how well quotes entail the claims that are marked as supported, in the rollouts that the "
            "run saved. SCORER is nli:FOLDER, a local NLI model (transformers, sequence classification), or oracle, "
            "the known truth of the nano world.",
        ),
    ] = None,
    rollouts: Annotated[
        Which | None,
        typer.Option(help="The rollouts for --entailment: val (validation rows, the default) or train (many more)."),
    ] = None,
) -> None:
    if len(runs) > 1 and out_dir is None:
        raise InputError("several runs share one page; say where to write it with --out-dir FOLDER")
    if rollouts and entailment is None:
        raise InputError("--rollouts chooses the rollouts for --entailment; give that as well")
    from eval_benchmarks.output.figure import COLOURS  # after --help: numpy loads slowly
    from experiments.dynamics.entailment import open_scorer
    from experiments.dynamics.figures import write_page
    from experiments.dynamics.run import read_runs

    if len(runs) > len(COLOURS):
        raise InputError(f"{len(runs)} runs, but at most {len(COLOURS)} can be drawn in one figure")
    which, scorer = rollouts or "val", None if entailment is None else open_scorer(entailment)
    drawn = read_runs(runs, which, scorer)
    for run in drawn:
        print(f"{run.name}: {run.state}")
        if scorer is not None:
            print(f"  entailment {run.entailment or 'not computed: ' + run.missing['entailment']}")
    print(f"dynamics: {write_page(drawn, out_dir or runs[0], which)}")


main = command_line(dynamics, "experiments.dynamics", __doc__)

if __name__ == "__main__":
    sys.exit(main())
