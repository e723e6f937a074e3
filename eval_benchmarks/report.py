"""One page about one run: `python -m eval_benchmarks.report RUN` reads RUN/{synthesize,train,bench}.

Everything on it stands in a file of the run; nothing is computed anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_benchmarks.charts import claims_chart, reward_chart, support_chart
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl, write_text

TEMPLATES = Path(__file__).parent / "templates"
Row = dict[str, Any]
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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    run = Path(run)
    files = {name: _load(run / place) for name, place in FILES.items()}
    steps = read_jsonl(run / "train/metrics.jsonl", {"step": int, "data": dict})
    by_alpha = files["synthesis"]["statistics"]["by_alpha"]
    charts = {
        "reward": Markup(reward_chart(steps)),
        "claims": Markup(claims_chart(steps)),
        "support": Markup(support_chart(by_alpha)) if by_alpha and by_alpha[0]["true_support"] is not None else None,
    }
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    environment.filters["figure"] = _figure
    page = environment.get_template("report.html").render(
        run=run.name,
        charts=charts,
        judges=side_by_side(files["summary"]),
        lexical=[row for row in files["summary"] if row["benchmark"] != "nano_eval"],
        steps=len([step for step in steps if step["step"] > 0]),
        **files,
    )
    write_text(run / "report.html", page)
    return run / "report.html"


def side_by_side(summary: Sequence[Row]) -> list[Row]:
    """For each nano_eval metric of two models: `{metric, base, trained, difference}`, each a row of summary.json.

    Empty if the run compared other than two models.
    """
    rows = [row for row in summary if row["benchmark"] == "nano_eval" and row["scorer"] == "rag_zeval"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    if len(models) != 3:  # two models and their difference
        return []
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["metric"], {})[row["model"]] = row
    base, trained = (model for model in models if " minus " not in model)
    difference = next(model for model in models if " minus " in model)
    return [
        {"metric": metric, "base": of[base], "trained": of[trained], "difference": of[difference]}
        for metric, of in found.items()
        if len(of) == 3
    ]


def _figure(row: Mapping[str, Any]) -> str:
    """`0.412 [0.371, 0.455]`, or a dash for what is missing."""
    if row["value"] is None:
        return "–"
    interval = f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]" if row["ci_low"] is not None else ""
    return f"{row['value']:.3f}{interval}"


def _load(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: is missing; the {path.parent.name} stage writes it")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error


def main(argv: Sequence[str]) -> None:
    """Write the report of the run folder given, or say how to call it."""
    if len(argv) != 1 or argv[0] in ("-h", "--help"):
        print("usage: python -m eval_benchmarks.report RUN   (a folder such as runs/reproduce)")
        sys.exit(0 if argv and argv[0] in ("-h", "--help") else 2)
    try:
        print(f"report: {write_run_report(argv[0])}")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
