"""`python -m experiments.reward_audit RUN`: did a training run reward better judgements, or something else?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.training_runs import read_arguments
from rag_zeval.errors import InputError
from rag_zeval.streams import exit_status

if TYPE_CHECKING:
    from experiments.reward_audit.findings import Section
    from experiments.reward_audit.replies import BeforeAndAfter
    from rag_zeval.files import Row

USAGE = """\
usage: python -m experiments.reward_audit RUN [key=value ...]

RUN is the folder of a training run (runs/train/nano), finished or not. Its early steps are compared with its late
ones, over the rollouts that it saved. docs/rewards.md says what each figure shows.

rollouts=train      which rollouts: train, or val (the validation rows, judged greedily)
bench=FOLDER        a finished bench (runs/bench/nano): its first model is compared with its last, on held-out sets
out_dir=FOLDER      where reward_audit.html and reward_audit.json go (default: RUN)
"""


def main(argv: Sequence[str]) -> int:
    """Return the exit status: 0 the page is written, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: reward_audit(argv))


def reward_audit(argv: Sequence[str]) -> int:
    paths, options = read_arguments(argv, USAGE)
    if len(paths) != 1:
        raise InputError(f"command line: name the folder of one training run, not {len(paths)} (--help says more)")
    from eval_benchmarks.output.page import render  # after --help: numpy loads slowly
    from experiments.reward_audit.findings import audit
    from experiments.reward_audit.replies import of_bench, of_run
    from experiments.training_runs import check_which
    from rag_zeval.files import write_json, write_text

    [run] = paths
    comparisons = [of_run(run, check_which(options.get("rollouts", "train")))]
    if "bench" in options:
        comparisons += of_bench(Path(options["bench"]))
    audited = [(comparison, audit(comparison)) for comparison in comparisons]
    name, out = run.resolve().name, Path(options.get("out_dir", run))
    content = {"run": name, "comparisons": [_as_json(*one) for one in audited]}
    write_json(out / "reward_audit.json", content)
    page = out / "reward_audit.html"
    write_text(page, render("reward_audit.html", name=name, audited=audited))
    for comparison in comparisons:
        for side in (comparison.before, comparison.after):
            if side.damaged:
                print(f"{comparison.name}, {side.label}: {len(side.damaged)} lines left out (first: {side.damaged[0]})")
    print(f"reward audit: {page}")
    return 0


def _as_json(comparison: BeforeAndAfter, sections: Sequence[Section]) -> Row:
    sides = {
        name: {"label": side.label, "replies": len(side.replies), "damaged": side.damaged}
        for name, side in (("before", comparison.before), ("after", comparison.after))
    }
    figures = {
        line.name: {
            "label": line.label,
            "before": asdict(line.before),
            "after": asdict(line.after),
            "apart": line.apart,
        }
        for section in sections
        for line in section.lines
    }
    return {"name": comparison.name, **sides, "figures": figures}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
