"""The nano base's model card: how it was made, and what the stages measured of it.

`python -m experiments.cards.nano_base_card MODEL SYNTHESIS_MANIFEST BENCH_SUMMARY`, the last step of `make nano-base`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import model_sha256, write_text
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

CARD = """---
license: apache-2.0
library_name: transformers
tags: [rag-zeval, nano]
---
# nano base

A {millions:.1f}M-parameter Llama-architecture model, trained from nothing, that answers questions about a generated
world (with a passage, or from memory) and judges such answers as one JSON trajectory. It knows nothing else. It is
where `make reproduce` and `make train` start at nano scale, and it is made to be improved: it keeps the format and
copies claims and evidence well, but in its last lessons the verdicts on three of eight attributes ({undecided})
were coin flips, so it cannot decide those claims. No shift of a threshold mends that.

| | |
|---|---|
| made by | `make nano-base` (`python -m train.nano.base`), seed {seed}, {steps} steps |
| time | {minutes} minutes on one CPU thread |
| weights | sha256 of the folder `{sha}` |
| data | generated (`rag_zeval/stages/world.py`, `train/nano/tasks.py`); judging lessons are about train people only |

## Scores

nano_eval: {n} held-out prompts for each K
(`python -m eval_benchmarks benchmarks=[nano_eval] scorers=[rag_zeval] models=[{model}]`).

| metric | value | 95% interval | n |
|---|---|---|---|
{scores}

True support of its answers by context-aware decoding
(`python -m synthesize model={model} split={split} n_questions={questions}`).

| α | true support | 95% interval | answers |
|---|---|---|---|
{supports}
"""


def card(model: Path, training: dict[str, Any], synthesis: dict[str, Any], summary: Sequence[dict[str, Any]]) -> str:
    """The card's Markdown from training.json, the synthesize manifest and the rows of summary.json.

    Raises InputError if the measurements are of another model than the folder holds now.
    """
    sha = model_sha256(model)
    if training["model_sha256"] != sha:
        raise InputError(f"{model}: its weights are not those that {model / 'training.json'} tells of")
    rows = {row["metric"]: row for row in summary if row["benchmark"] == "nano_eval" and row["value"] is not None}
    scores = [
        f"| {name} | {rows[name]['value']:.3f} | {rows[name]['ci_low']:.3f} to {rows[name]['ci_high']:.3f} "
        f"| {rows[name]['n']} |"
        for name in SHOWN
        if name in rows
    ]
    supports = [
        f"| {at['alpha']:g} | {at['true_support']:.3f} | {at['true_support_low']:.3f} to {at['true_support_high']:.3f} "
        f"| {at['true_support_n']} |"
        for at in synthesis["statistics"]["by_alpha"]
    ]
    return CARD.format(
        millions=training["parameters"] / 1e6,
        undecided=", ".join(sorted(UNDECIDED)),
        seed=training["config"]["seed"],
        steps=training["config"]["steps"],
        minutes=training["minutes"],
        sha=sha,
        model=model,
        n=max((row["n"] for row in rows.values()), default=0),
        split=synthesis["config"]["split"],
        questions=synthesis["config"]["n_questions"],
        scores="\n".join(scores),
        supports="\n".join(supports),
    )


def main(argv: Sequence[str]) -> int:
    """Read the three, write MODEL/README.md."""
    if len(argv) != 3:
        raise InputError("usage: python -m experiments.cards.nano_base_card MODEL SYNTHESIS_MANIFEST BENCH_SUMMARY")
    model, *measured = map(Path, argv)
    training, synthesis, summary = (load_json(path) for path in (model / "training.json", *measured))
    write_text(model / "README.md", card(model, training, synthesis, summary))
    print(f"model card: {model / 'README.md'}")
    return 0


def load_json(path: Path) -> Any:
    """Raises InputError naming file and line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
