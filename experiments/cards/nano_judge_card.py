"""Ship a trained nano judge: its model folder, and a card with how it was made and what was measured of it.

`python -m experiments.cards.nano_judge_card RUN BENCH_SUMMARY OUT`, the last step of `make nano-judge`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.cards.nano_base_card import SHOWN, load_json
from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import model_sha256, write_text

CARD = """---
license: apache-2.0
library_name: transformers
tags: [rag-zeval, nano]
---
# nano judge

The [nano base](../nano-base/README.md) after reinforcement learning on its own answers: ranking rewards, no labels. It
judges answers about a generated world, to show what training does; it knows nothing else.
`make bench` measures it beside its base.

| | |
|---|---|
| made by | `{command}` |
| training | {steps} steps of {prompts} prompts with {rollouts} rollouts ({stages}), seed {seed}, {minutes} minutes |
| base | `{base_model}`, sha256 of the folder `{base}` |
| training answers | by `make synthesize`; sha256 over the sha256 of each file `{responses}` |
| weights | sha256 of the folder `{sha}` |

## Scores

`make bench ARGS="benchmarks=[nano_eval,nano_cad] scorers=[rag_zeval] models=[{base_model},checkpoints/nano-judge]"`:
held-out people, 500 prompts for each K; 95% intervals over prompts, of this one seed. Several seeds together:
`make proof` and [its tables](../../docs/nano-results/proof/tables.md).

| benchmark | metric | base | judge | judge minus base | n |
|---|---|---|---|---|---|
{scores}
"""


def card(manifest: dict[str, Any], summary: Sequence[dict[str, Any]], model: str, command: str) -> str:
    """The card's Markdown from a training run's manifest.json and the rows of a bench of its base and its `model`.

    Raises InputError if the bench did not measure both.
    """
    config, base = manifest["config"], manifest["base_model"]
    rows = {(row["benchmark"], row["metric"], row["model"]): row for row in summary}
    scores = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in summary):
        for metric in SHOWN:
            found = [rows.get((benchmark, metric, which)) for which in (base, model, f"{model} minus {base}")]
            if None in found:
                raise InputError(f"the bench has no {metric} of {base} and {model} on {benchmark}")
            before, after, difference = (row or {} for row in found)
            limits = f"[{difference['ci_low']:+.3f}, {difference['ci_high']:+.3f}]"
            scores.append(
                f"| {benchmark} | {metric} | {before['value']:.3f} | {after['value']:.3f} "
                f"| {difference['value']:+.3f} {limits} | {difference['n']} |"
            )
    verl = config["verl"]
    return CARD.format(
        command=command,
        steps=manifest["steps"],
        prompts=verl["data"]["train_batch_size"],
        rollouts=verl["actor_rollout_ref"]["rollout"]["n"],
        stages=", then ".join(f"{stage['rows']} prompts with K={stage['k']}" for stage in config["stages"]),
        seed=config["seed"],
        minutes=f"{manifest['minutes']:.0f}",
        base_model=base,
        base=manifest["base"],
        responses=manifest["responses"],
        sha=manifest["model"],
        scores="\n".join(scores),
    )


def main(argv: Sequence[str]) -> int:
    """Copy RUN/model to OUT and write OUT/README.md."""
    if len(argv) != 3:
        raise InputError("usage: python -m experiments.cards.nano_judge_card RUN BENCH_SUMMARY OUT")
    run, summary, out = map(Path, argv)
    manifest, model = load_json(run / "manifest.json"), run / "model"
    if model_sha256(model) != manifest["model"]:
        raise InputError(f"{model}: its weights are not those that {run / 'manifest.json'} tells of")
    command = f"make train PROFILE={manifest['config']['profile']} ARGS=seed={manifest['config']['seed']}"
    text = card(manifest, load_json(summary), str(model), command)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(model, out)
    write_text(out / "README.md", text)
    print(f"shipped: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
