"""The nano base's model card: how it was made, and what the stages measured of it.

`python -m experiments.cards.nano_base_card MODEL SYNTHESIS_MANIFEST BENCH_SUMMARY`, the last step of `make nano-base`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.markdown import fill
from rag_zeval.errors import InputError
from rag_zeval.files import Row, model_sha256, read_json, write_text
from rag_zeval.streams import exit_status, run_command
from train.nano.tasks import UNDECIDED

SHOWN = (
    "format_rate",
    "claim_recall",
    "verdict_accuracy",
    "verdict_tpr",
    "verdict_tnr",
    "ranking_accuracy",
    "pairwise_best",
    "pairwise_middle",
    "pairwise_worst",
)


def base_card(model: Path, training: Row, synthesis: Row, summary: Sequence[Row]) -> str:
    """The card's Markdown from training.json, the synthesize manifest and the rows of summary.json.

    Raises InputError if the measurements are of another model than the folder holds now.
    """
    if training["model_sha256"] != model_sha256(model):
        raise InputError(f"{model}: its weights are not those described in {model / 'training.json'}")
    rows = {row["metric"]: row for row in summary if row["benchmark"] == "nano_eval" and row["value"] is not None}
    return fill(
        "nano_base_card.md.j2",
        model=model,
        training=training,
        synthesis=synthesis,
        millions=training["parameters"] / 1e6,
        undecided=sorted(UNDECIDED),
        n=max((row["n"] for row in rows.values()), default=0),
        scores=[rows[metric] for metric in SHOWN if metric in rows],
    )


def main(argv: Sequence[str]) -> int:
    return run_command(write_card, argv, "experiments.cards.nano_base_card", "Write MODEL/README.md, the model's card.")


def write_card(
    model: Annotated[Path, typer.Argument(help="The folder of the model.")],
    synthesis_manifest: Annotated[Path, typer.Argument(help="The manifest.json of a synthesis run of the model.")],
    bench_summary: Annotated[Path, typer.Argument(help="The summary.json of a benchmark run of the model.")],
) -> None:
    training = read_json(model / "training.json")
    write_text(
        model / "README.md", base_card(model, training, read_json(synthesis_manifest), read_json(bench_summary, list))
    )
    print(f"model card: {model / 'README.md'}")


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
