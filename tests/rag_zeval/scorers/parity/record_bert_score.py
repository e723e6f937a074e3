"""What bert-score makes of pairs of short texts, by a tiny BERT with random weights.

Runs in an environment of its own (requirements/parity/bert-score.txt). Substituted: the model, for the default,
roberta-large, cannot be shipped; the layer is the one that the package's table has for BERT's 12 layers. With
transformers 5 the package cannot read an empty text, so there is none here.
"""

import tempfile
from pathlib import Path

import bert_score
from bert_score.utils import model2layers
from recording import instances_of, record
from tiny_bert import write_bert

DECIMALS = 6  # a score is computed in 32 bits


def main() -> None:
    instances = instances_of("bert_score")
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
    record("bert_score", ["bert-score"], substituted, {"bert_score": scores})


if __name__ == "__main__":
    main()
