"""`python -m experiments.dynamics RUN [RUN ...]`: draws the figures of training runs on one page."""

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.training_runs import read_arguments
from rag_zeval.errors import InputError
from rag_zeval.streams import exit_status

USAGE = """\
usage: python -m experiments.dynamics RUN [RUN ...] [key=value ...]

Draws training runs by step, on one page. RUN is the folder of a training run, such as runs/train/nano; the run need
not be finished. Several runs are drawn in the same figures.

out_dir=FOLDER      where to write dynamics.html and dynamics/*.png; needed for several runs (default: RUN)
entailment=SCORER   also draw how well quotes entail the claims that are marked as supported, in the rollouts that the
                    run saved. SCORER decides:
                    nli:FOLDER  a local NLI model (transformers, sequence classification)
                    oracle      the known truth of the nano world
rollouts=val        the rollouts for entailment: val (the validation rows), or train (many more)
"""


def dynamics(argv: Sequence[str]) -> int:
    paths, options = read_arguments(argv, USAGE)
    if not paths:
        raise InputError("command line: name the folder of a training run (--help says more)")
    if len(paths) > 1 and "out_dir" not in options:
        raise InputError("command line: several runs share one page; say where to write it with out_dir=FOLDER")
    if "rollouts" in options and "entailment" not in options:
        raise InputError("command line: rollouts= chooses the rollouts for entailment; give entailment= as well")
    from eval_benchmarks.output.curves import COLOURS  # after --help: numpy loads slowly
    from experiments.dynamics.entailment import open_scorer
    from experiments.dynamics.figures import write_page
    from experiments.dynamics.run import read_runs
    from experiments.training_runs import check_which

    if len(paths) > len(COLOURS):
        raise InputError(f"command line: {len(paths)} runs, but at most {len(COLOURS)} can be drawn in one figure")
    which = check_which(options.get("rollouts", "val"))
    scorer = open_scorer(options["entailment"]) if "entailment" in options else None
    runs = read_runs(paths, which, scorer)
    for run in runs:
        print(f"{run.name}: {run.state}")
        if scorer is not None:
            print(f"  entailment {run.entailment or 'not computed: ' + run.missing['entailment']}")
    print(f"dynamics: {write_page(runs, Path(options.get('out_dir', paths[0])), which)}")
    return 0


def main(argv: Sequence[str]) -> int:
    """Return the exit status: 0 the page is written, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: dynamics(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
