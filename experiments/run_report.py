"""Writes one page about one run: `python -m experiments.run_report RUN` reads RUN/{synthesize,train,bench}.

All numbers come from the files of the run; nothing is measured again.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from eval_benchmarks.output.figure import png
from eval_benchmarks.output.page import embedded, render
from experiments.dynamics.figures import FIGURES, draw, window
from experiments.dynamics.run import read_runs
from experiments.markdown import TEMPLATES
from experiments.training_curves import step_axes
from rag_zeval.errors import InputError
from rag_zeval.files import COUNT, NONE, NUMBER_OR_NONE, FieldTypes, Maybe, Row, check_object, read_json, write_text
from rag_zeval.streams import command_line
from rag_zeval.text import with_interval
from synthesize.faithfulness import MEASURES

FILES = {
    "synthesis": "synthesize/manifest.json",
    "training": "train/manifest.json",
    "summary": "bench/summary.json",
    "bench": "bench/manifest.json",
}
NUMBER = (int, float)
MEAN: FieldTypes = {"n": COUNT, "mean": NUMBER_OR_NONE, "low": NUMBER_OR_NONE, "high": NUMBER_OR_NONE}
SUPPORT = ("true_support", "true_support_low", "true_support_high")
SHOWN: FieldTypes = {  # the fields that the page needs from these files
    "synthesis": {
        "statistics": {
            "answered": COUNT,
            "questions": COUNT,
            "identical": {"any": NUMBER_OR_NONE},
            "strictly_ordered": NUMBER_OR_NONE,
            "by_alpha": [
                {
                    **{"alpha": NUMBER, "answers": COUNT, "n_tokens": NUMBER, "unfinished": NUMBER},
                    **dict.fromkeys(("repetition", *SUPPORT), NUMBER_OR_NONE),
                }
            ],
        },
        "faithfulness": Maybe({str: {"by_alpha": [MEAN], "ordered": MEAN}}),
    },
    "training": {"steps": COUNT, "minutes": NUMBER, "attempts": COUNT},
    "summary": [
        {
            **dict.fromkeys(("benchmark", "scorer", "metric"), str),
            **dict.fromkeys(("model", "minus"), (str, NONE)),
            **dict.fromkeys(("value", "ci_low", "ci_high", "published"), NUMBER_OR_NONE),
            **{"n": COUNT, "coverage": NUMBER},
        }
    ],
    "bench": {"notes": [str]},
}
CURVES = ("figure-3", "figure-4", "claims-by-rank")  # some figures of the training; `experiments.dynamics` draws all


def write_run_report(run: str | Path) -> Path:
    """Write RUN/report.html, one file without external assets, and return its path.

    Raises InputError naming the first file of the run that is missing, and the stage that writes it.
    """
    run = Path(run)
    for place in FILES.values():
        if not (run / place).is_file():
            raise InputError(f"{run / place}: is missing; the {Path(place).parent.name} stage writes it")
    read = {name: read_json(run / place, list if name == "summary" else dict) for name, place in FILES.items()}
    files = {name: check_object(run / FILES[name], {name: of}, {name: SHOWN[name]})[name] for name, of in read.items()}
    trained = read_runs([run / "train"], "val", None)
    curves = {of.title: draw(of, trained) for of in FIGURES if of.name in CURVES}
    summary = files["summary"]
    sides = {name: side_by_side(summary, name) for name in dict.fromkeys(row["benchmark"] for row in summary)}
    compared = {name: table for name, table in sides.items() if table}
    by_alpha = files["synthesis"]["statistics"]["by_alpha"]
    supported = [at for at in by_alpha if at["true_support"] is not None]
    page = render(
        "report.html",
        filters={"figure": _figure},
        folder=TEMPLATES,
        run=run.name,
        support=embedded(support_chart(supported)) if supported else None,
        curves={title: embedded(image) for title, image in curves.items() if image is not None},
        window=window(trained),
        judges=list(compared.values()),
        metrics={row["metric"] for table in compared.values() for row in table},
        others=[row for row in summary if row["benchmark"] not in compared or row["scorer"] != "rag_zeval"],
        measures=MEASURES,
        faithfulness=files["synthesis"].get("faithfulness", {}),  # older runs did not measure it
        **files,
    )
    write_text(run / "report.html", page)
    return run / "report.html"


def side_by_side(summary: Sequence[Row], benchmark: str) -> list[Row]:
    """Return `{metric, base, trained, difference}` for each metric of a benchmark.

    The last three are rows of `summary`. The list is empty unless the run compared exactly two models.
    """
    rows = [row for row in summary if row["benchmark"] == benchmark and row["scorer"] == "rag_zeval"]
    if len({row["model"] for row in rows if row["minus"] is None}) != 2:
        return []
    by_metric: dict[str, list[Row]] = {}
    for row in rows:  # of each metric: the first model, the second model, their difference
        by_metric.setdefault(row["metric"], []).append(row)
    return [
        {"metric": metric, "base": of[0], "trained": of[1], "difference": of[2]}
        for metric, of in by_metric.items()
        if [row["minus"] for row in of] == [None, None, of[0]["model"]]
    ]


def _figure(row: Row, value: str = "value", low: str = "ci_low", high: str = "ci_high") -> str:
    """Format these three fields as `0.412 [0.371, 0.455]`. A missing interval is left out; no value is a dash."""
    return with_interval(row[value], row[low], row[high], none="–")


def support_chart(by_alpha: Sequence[Row]) -> bytes:
    """Draw the mean true support of the synthesized answers by alpha as PNG, with 95% intervals.

    Each alpha must have a value. An alpha with a single answer has no interval.
    """
    figure, (axes,) = step_axes(1, 6.4, 3.8)
    axes.set_xlabel("α")
    axes.set_ylabel("true support")
    x = range(len(by_alpha))
    means = [at["true_support"] for at in by_alpha]
    bounds = [[at[name] for at in by_alpha] for name in SUPPORT[1:]]
    reach = [[0 if b is None else abs(b - mean) for b, mean in zip(ends, means, strict=True)] for ends in bounds]
    axes.bar(x, means, yerr=reach, color="#7fa7d4", ecolor="#1d2733", capsize=4)
    axes.set_xticks(list(x), [f"{at['alpha']:g}" for at in by_alpha])
    axes.set_ylim(0, 1.05)
    return png(figure)


def report(run: Annotated[Path, typer.Argument(help="The folder of the run, such as runs/reproduce.")]) -> None:
    print(f"report: {write_run_report(run)}")


main = command_line(report, "experiments.run_report", "Write the report of a whole run again.")

if __name__ == "__main__":
    sys.exit(main())
