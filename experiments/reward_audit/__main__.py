"""Did a training run reward better judgements, or something else?

RUN is the folder of a training run, finished or not, or of a finished `make bench` run. Of a training run, the early
steps are compared with the late ones, over the rollouts that it saved. Of a bench, the first model is compared with the
last. docs/rewards.md says what each figure shows.
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
from rag_zeval.text import with_interval

if TYPE_CHECKING:
    from experiments.reward_audit.findings import Measured, Section
    from experiments.reward_audit.replies import BeforeAndAfter
    from rag_zeval.files import Row


def reward_audit(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders, such as runs/train/nano or runs/bench/nano.")
    ],
    rollouts: Annotated[
        Which, typer.Option(help="Which rollouts of a training run: training, or the validation rows, judged greedily.")
    ] = "train",
    out_dir: Annotated[
        Path | None,
        typer.Option(help="Where to write reward_audit.html and reward_audit.json. Default: the first RUN."),
    ] = None,
) -> None:
    from eval_benchmarks.bench_manifest import ROWS  # after --help: numpy loads slowly
    from eval_benchmarks.output.page import render
    from experiments.markdown import TEMPLATES
    from experiments.reward_audit.findings import audit
    from experiments.reward_audit.replies import of_bench, of_run
    from rag_zeval.files import write_json, write_text

    comparisons: list[BeforeAndAfter] = []
    for run in runs:
        comparisons += of_bench(run) if (run / ROWS).is_dir() else [of_run(run, rollouts)]
    audited = [(comparison, audit(comparison)) for comparison in comparisons]
    name, out = " and ".join(map(str, runs)), out_dir or runs[0]
    content = {"runs": list(map(str, runs)), "comparisons": [_as_json(*one) for one in audited]}
    write_json(out / "reward_audit.json", content)
    page = out / "reward_audit.html"
    filters = {"figure": _figure}
    write_text(page, render("reward_audit.html", filters=filters, folder=TEMPLATES, name=name, audited=audited))
    for comparison in comparisons:
        for side in (comparison.before, comparison.after):
            if side.damaged:
                print(f"{comparison.name}, {side.label}: {len(side.damaged)} lines left out (first: {side.damaged[0]})")
    print(f"reward audit: {page}")


def _figure(measured: Measured) -> str:
    return with_interval(measured.value, measured.low, measured.high, none="–")


def _as_json(comparison: BeforeAndAfter, sections: Sequence[Section]) -> Row:
    sides = {
        name: {"label": side.label, "replies": len(side.replies), "damaged": side.damaged}
        for name, side in (("before", comparison.before), ("after", comparison.after))
    }
    figures = {
        line.name: {key: value for key, value in asdict(line).items() if key != "name"} | {"apart": line.apart}
        for section in sections
        for line in section.lines
    }
    return {"name": comparison.name, **sides, "figures": figures}


main = command_line(reward_audit, "experiments.reward_audit", __doc__)

if __name__ == "__main__":
    sys.exit(main())
