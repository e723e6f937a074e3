"""What bert-score makes of pairs of short texts, by a tiny BERT with random weights.

Runs in an environment of its own (requirements/parity/bert-score.txt). Substituted: the model, for the default,
roberta-large, cannot be shipped; the layer is the one that the package's table has for BERT's 12 layers. With
transformers 5 the package cannot read an empty text, so there is none here.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import bert_score
from bert_score.utils import model2layers
from recording import record
from tiny_bert import WINDOW, write_bert

PAIRS, SEED = 40, 0
DECIMALS = 6  # a score is computed in 32 bits


def text(rng: random.Random) -> str:
    words = ["".join(rng.choices("abcdexyz", k=rng.randint(1, 3))) for _ in range(rng.randint(1, 4))]
    return " ".join(words)[: WINDOW - 3].strip()


def main() -> None:
    rng = random.Random(SEED)
    pairs = [(text(rng), text(rng)) for _ in range(PAIRS)] + [("abc", "abc"), ("bca", "abc")]
    instances = [{"id": f"{at:02}", "answer": a, "truth": b} for at, (a, b) in enumerate(pairs)]
    with tempfile.TemporaryDirectory() as folder:
        _, _, found = bert_score.score(
            [one["answer"] for one in instances],
            [one["truth"] for one in instances],
            model_type=str(write_bert(Path(folder))),
            num_layers=model2layers["bert-base-uncased"],
            batch_size=1,
        )
    scores = {one["id"]: round(value, DECIMALS) for one, value in zip(instances, found.tolist(), strict=True)}
    substituted = ["the model: a tiny BERT with random weights"]
    record("bert_score", ["bert-score"], substituted, instances, {"bert_score": scores})


if __name__ == "__main__":
    main()
