"""Did a training run reward better judgements, or something else?

RUN is the folder of a training run, finished or not. Its early steps are compared with its late ones, over the rollouts
that it saved. docs/rewards.md says what each figure shows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.training_runs import Which
from rag_zeval.streams import command_line

if TYPE_CHECKING:
    from experiments.reward_audit.findings import Section
    from experiments.reward_audit.replies import BeforeAndAfter
    from rag_zeval.files import Row


def reward_audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training run, such as runs/train/nano.")],
    rollouts: Annotated[
        Which, typer.Option(help="The rollouts: of training, or of the validation rows, judged greedily.")
    ] = "train",
    bench: Annotated[
        Path | None,
        typer.Option(
            help="The folder of a finished bench, such as runs/bench/nano. Its first model is compared with its last, "
            "on held-out sets."
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option(help="Where to write reward_audit.html and reward_audit.json. Default: the run's folder."),
    ] = None,
) -> None:
    from eval_benchmarks.output.page import render  # after --help: numpy loads slowly
    from experiments.reward_audit.findings import audit
    from experiments.reward_audit.replies import of_bench, of_run
    from rag_zeval.files import write_json, write_text

    comparisons = [of_run(run, rollouts), *(of_bench(bench) if bench else ())]
    audited = [(comparison, audit(comparison)) for comparison in comparisons]
    name, out = run.resolve().name, out_dir or run
    content = {"run": name, "comparisons": [_as_json(*one) for one in audited]}
    write_json(out / "reward_audit.json", content)
    page = out / "reward_audit.html"
    write_text(page, render("reward_audit.html", name=name, audited=audited))
    for comparison in comparisons:
        for side in (comparison.before, comparison.after):
            if side.damaged:
                print(f"{comparison.name}, {side.label}: {len(side.damaged)} lines left out (first: {side.damaged[0]})")
    print(f"reward audit: {page}")


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


main = command_line(reward_audit, "experiments.reward_audit", __doc__)

if __name__ == "__main__":
    sys.exit(main())
