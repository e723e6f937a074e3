"""`python -m experiments.dynamics RUN [RUN ...]`: the figures of training runs, and a page that shows them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.errors import InputError, exit_status, nearest

USAGE = """\
usage: python -m experiments.dynamics RUN [RUN ...] [key=value ...]

RUN is the folder of a training run (runs/train/nano), finished or not; several are drawn over one another.

out_dir=FOLDER      where dynamics.html and dynamics/*.png go; for one run, its own folder if none is given
entailment=SPEC     how far quotes entail the claims marked supported, from the rollouts the run saved:
                    nli:FOLDER  a local NLI model (transformers, sequence classification)
                    oracle      the truth of the nano world
rollouts=val        over which of them: val, or train (many more)
"""
KEYS = ("out_dir", "entailment", "rollouts")


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 the page is written, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: dynamics(argv))


def dynamics(argv: Sequence[str]) -> int:
    if {"-h", "--help"} & set(argv):
        print(USAGE, end="")
        return 0
    options = dict(word.split("=", 1) for word in argv if re.match(r"[a-z_]+=", word))
    paths = [Path(word) for word in argv if not re.match(r"[a-z_]+=", word)]
    for key in options:
        if key not in KEYS:
            raise InputError(f"command line: unknown key '{key}'{nearest(key, KEYS)}")
    if not paths:
        raise InputError("command line: name the folder of a training run (--help says more)")
    if len(paths) > 1 and "out_dir" not in options:
        raise InputError("command line: several runs are drawn on one page; say where it goes with out_dir=FOLDER")
    if "rollouts" in options and "entailment" not in options:
        raise InputError("command line: rollouts= says where entailment is computed; give entailment= as well")
    from eval_benchmarks.output.curves import COLOURS  # after --help: brings numpy
    from experiments.dynamics.entailment import WHICH, open_scorer
    from experiments.dynamics.figures import write_page
    from experiments.dynamics.run import read_runs

    if len(paths) > len(COLOURS):
        raise InputError(f"command line: {len(paths)} runs; there are colours for {len(COLOURS)}")
    which = options.get("rollouts", "val")
    if which not in WHICH:
        raise InputError(f"rollouts={which}: there is {', '.join(WHICH)}")
    scorer = open_scorer(options["entailment"]) if "entailment" in options else None
    runs = read_runs(paths, which, scorer)
    for run in runs:
        print(f"{run.name}: {run.state}")
        if scorer is not None:
            print(f"  entailment {run.entailment or 'not computed: ' + run.missing['entailment']}")
    print(f"dynamics: {write_page(runs, Path(options.get('out_dir', paths[0])), which)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
