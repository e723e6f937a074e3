"""One page about one run: `python -m experiments.run_report RUN` reads RUN/{synthesize,train,bench}.

Everything on it stands in a file of the run; nothing is computed anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_benchmarks.output.page import render
from experiments.charts import claims_chart, reward_chart, support_chart
from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import Row, write_text
from rag_zeval.stages.training_log import read_run

NANO = ("nano_eval", "nano_cad")  # benchmarks where the base and the trained judge are compared
FILES = {
    "synthesis": "synthesize/manifest.json",
    "training": "train/manifest.json",
    "summary": "bench/summary.json",
    "bench": "bench/manifest.json",
}


def write_run_report(run: str | Path) -> Path:
    """Write RUN/report.html, one file without outside assets; its path.

    Raises InputError naming the first file of the run that is missing, and the stage that writes it.
    """
    from markupsafe import Markup

    run = Path(run)
    files = {name: _load(run / place) for name, place in FILES.items()}
    steps = read_run(run / "train")
    supported = [at for at in files["synthesis"]["statistics"]["by_alpha"] if at["true_support"] is not None]
    charts = {
        "reward": Markup(reward_chart(steps)),
        "claims": Markup(claims_chart(steps)),
        "support": Markup(support_chart(supported)) if supported else None,
    }
    page = render(
        "report.html",
        filters={"figure": _figure},
        run=run.name,
        charts=charts,
        judges=[table for table in (side_by_side(files["summary"], name) for name in NANO) if table],
        lexical=[row for row in files["summary"] if row["benchmark"] not in NANO],
        **files,
    )
    write_text(run / "report.html", page)
    return run / "report.html"


def side_by_side(summary: Sequence[Row], benchmark: str) -> list[Row]:
    """For each of a benchmark's metrics of two models: `{metric, base, trained, difference}`, rows of summary.json.

    Empty if the run compared other than two models.
    """
    rows = [row for row in summary if row["benchmark"] == benchmark and row["scorer"] == "rag_zeval"]
    if len({row["model"] for row in rows if row["minus"] is None}) != 2:
        return []
    found: dict[str, list[Row]] = {}
    for row in rows:  # of each metric: the first model, the second, and then their difference
        found.setdefault(row["metric"], []).append(row)
    return [
        {"metric": metric, "base": of[0], "trained": of[1], "difference": of[2]}
        for metric, of in found.items()
        if [row["minus"] for row in of] == [None, None, of[0]["model"]]
    ]


def _figure(row: Mapping[str, Any], value: str = "value", low: str = "ci_low", high: str = "ci_high") -> str:
    """`0.412 [0.371, 0.455]` of these three fields, or a dash for what is missing."""
    if row[value] is None:
        return "–"
    interval = f" [{row[low]:.3f}, {row[high]:.3f}]" if row[low] is not None else ""
    return f"{row[value]:.3f}{interval}"


def _load(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: is missing; the {path.parent.name} stage writes it")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 the report of the run folder given is written, 2 the input is wrong, 130 interrupted."""
    return exit_status(lambda: report(argv))


def report(argv: Sequence[str]) -> int:
    usage = "usage: python -m experiments.run_report RUN   (a folder such as runs/reproduce)"
    if {"-h", "--help"} & set(argv):
        print(usage)
        return 0
    if len(argv) != 1:
        raise InputError(usage)
    print(f"report: {write_run_report(argv[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
