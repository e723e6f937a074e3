"""Ship a trained nano judge: its model folder, and a card with how it was made and what was measured of it.

`python -m experiments.cards.nano_judge_card RUN BENCH_SUMMARY OUT`, the last step of `make nano-judge`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.cards.nano_base_card import SHOWN
from experiments.markdown import fill
from rag_zeval.errors import InputError
from rag_zeval.files import Row, model_sha256, read_json, write_text
from rag_zeval.streams import exit_status, run_command


def judge_card(manifest: Row, summary: Sequence[Row], model: str) -> str:
    """The card's Markdown from a training run's manifest.json and the rows of a bench of its base and its `model`.

    Raises InputError if the bench did not measure both.
    """
    base = manifest["base_model"]
    rows = {(row["benchmark"], row["metric"], row["model"]): row for row in summary}
    scores = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in summary):
        for metric in SHOWN:
            of_both = [rows.get((benchmark, metric, which)) for which in (base, model, f"{model} minus {base}")]
            if None in of_both:
                raise InputError(f"the bench has no {metric} of {base} and {model} on {benchmark}")
            scores.append((benchmark, metric, *of_both))
    return fill("nano_judge_card.md.j2", scores=scores, **manifest)


def main(argv: Sequence[str]) -> int:
    return run_command(write_card, argv, "experiments.cards.nano_judge_card", "Copy RUN/model to OUT, with its card.")


def write_card(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training run.")],
    bench_summary: Annotated[Path, typer.Argument(help="The summary.json of a benchmark run of the model.")],
    out: Annotated[Path, typer.Argument(help="The folder to write. It is replaced if it exists.")],
) -> None:
    manifest, model = read_json(run / "manifest.json"), run / "model"
    if model_sha256(model) != manifest["model"]:
        raise InputError(f"{model}: its weights are not those described in {run / 'manifest.json'}")
    text = judge_card(manifest, read_json(bench_summary, list), str(model))
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(model, out)
    write_text(out / "README.md", text)
    print(f"shipped: {out}")


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
