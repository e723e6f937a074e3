"""One page about one run: `python -m experiments.run_report RUN` reads RUN/{synthesize,train,bench}.

Everything on it stands in a file of the run; nothing is computed anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from eval_benchmarks.output.page import render
from experiments.charts import claims_chart, reward_chart, support_chart
from experiments.markdown import figure
from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import Row, read_json, write_text
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
    for place in FILES.values():
        if not (run / place).is_file():
            raise InputError(f"{run / place}: is missing; the {Path(place).parent.name} stage writes it")
    files = {name: read_json(run / place, list if name == "summary" else dict) for name, place in FILES.items()}
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
    by_metric: dict[str, list[Row]] = {}
    for row in rows:  # of each metric: the first model, the second, and then their difference
        by_metric.setdefault(row["metric"], []).append(row)
    return [
        {"metric": metric, "base": of[0], "trained": of[1], "difference": of[2]}
        for metric, of in by_metric.items()
        if [row["minus"] for row in of] == [None, None, of[0]["model"]]
    ]


def _figure(row: Row, value: str = "value", low: str = "ci_low", high: str = "ci_high") -> str:
    """`0.412 [0.371, 0.455]` of these three fields, or a dash for what is missing."""
    return "–" if row[value] is None else figure({"value": row[value], "ci_low": row[low], "ci_high": row[high]})


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 the report of the run folder is written, 2 the input is wrong, 130 interrupted."""
    usage = "usage: python -m experiments.run_report RUN   (a folder such as runs/reproduce)"

    def report() -> int:
        if {"-h", "--help"} & set(argv):
            print(usage)
        elif len(argv) == 1:
            print(f"report: {write_run_report(argv[0])}")
        else:
            raise InputError(usage)
        return 0

    return exit_status(report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
