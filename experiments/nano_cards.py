"""Writes the model cards of the nano models, which say how each was made and how it scored.

`base` is the last step of `make nano-base`, and `judge` that of `make nano-judge`.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.markdown import fill
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_json, write_text
from rag_zeval.models.folder import model_sha256
from rag_zeval.streams import exit_status, run_app
from train.nano.tasks import UNDECIDED

SHOWN = (
    "format_rate claim_recall verdict_accuracy verdict_tpr verdict_tnr ranking_accuracy pairwise_best pairwise_middle "
    "pairwise_worst"
).split()
Summary = Annotated[Path, typer.Argument(help="The summary.json of a benchmark run of the model.")]

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def base(
    model: Annotated[Path, typer.Argument(help="The folder of the model.")],
    synthesis_manifest: Annotated[Path, typer.Argument(help="The manifest.json of a synthesis run of the model.")],
    bench_summary: Summary,
) -> None:
    """Write MODEL/README.md, the base's card."""
    training = _described(model, model / "training.json", "model_sha256")
    rows = {row["metric"]: row for row in read_json(bench_summary, list) if row["benchmark"] == "nano_eval"}
    scores = [rows[metric] for metric in SHOWN if metric in rows and rows[metric]["value"] is not None]
    card = fill(
        "nano_base_card.md.j2",
        model=model,
        training=training,
        synthesis=read_json(synthesis_manifest),
        millions=training["parameters"] / 1e6,
        undecided=sorted(UNDECIDED),
        n=max((row["n"] for row in scores), default=0),
        scores=scores,
    )
    write_text(model / "README.md", card)
    print(f"model card: {model / 'README.md'}")


@app.command()
def judge(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training run.")],
    bench_summary: Summary,
    out: Annotated[Path, typer.Argument(help="The folder to write. It is replaced if it exists.")],
) -> None:
    """Ship a judge: copy RUN/model to OUT, with its card."""
    model = run / "model"
    manifest = _described(model, run / "manifest.json", "model")
    trained_from, summary = manifest["base_model"], read_json(bench_summary, list)
    rows = {(row["benchmark"], row["metric"], row["model"]): row for row in summary}
    scores = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in summary):
        for metric in SHOWN:
            models = (trained_from, str(model), f"{model} minus {trained_from}")
            of_both = [rows.get((benchmark, metric, name)) for name in models]
            if None in of_both:
                raise InputError(f"the bench has no {metric} of {trained_from} and {model} on {benchmark}")
            scores.append((benchmark, metric, *of_both))
    card = fill("nano_judge_card.md.j2", scores=scores, **manifest)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(model, out)
    write_text(out / "README.md", card)
    print(f"shipped: {out}")


def _described(model: Path, path: Path, key: str) -> Row:
    """Read the file that describes the model.

    key: the field with the hash of the model. Raises InputError if the folder now holds other weights.
    """
    description: Row = read_json(path)
    if description[key] != model_sha256(model):
        raise InputError(f"{model}: its weights are not those described in {path}")
    return description


def main(argv: Sequence[str]) -> int:
    return run_app(app, argv, "python -m experiments.nano_cards")


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
