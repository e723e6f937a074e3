"""BERTScore with the defaults of the package bert-score 0.3.13: no idf, no rescaling.

[CLS] and [SEP] may be matched but do not count, also where a text spells them, as an answer that ends in "</s>" does.
The score is 0 if the answer or the reference has no other token.

Known differences:

- A text longer than the model's window has no score. The package cuts it.
- The layer follows from the model's kind and depth. The package has a table of layers by name, where some models have
  another layer than the original one of their depth, such as bert-base-chinese.
"""

import math
from collections.abc import Iterable, Iterator
from statistics import harmonic_mean
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import ANY_ANSWER
from rag_zeval.models.embeddings import load_encoder
from rag_zeval.models.folder import model_sha256
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.text import one_line

# index into hidden_states by the model's type and number of layers: what the table has for the original models
LAYERS = {
    ("bert", 12): 9,
    ("bert", 24): 18,
    ("roberta", 6): 5,
    ("roberta", 12): 10,
    ("roberta", 24): 17,
    ("xlm-roberta", 12): 9,
    ("xlm-roberta", 24): 17,
    ("distilbert", 6): 5,
}


class BertScore(Scorer):
    """BERTScore F1 (Zhang et al. 2020, arXiv:1904.09675): greedy matching of tokens by cosine of their hidden states.

    It compares each answer with the reference, in [0, 1], with a local folder's model. Its parts are precision and
    recall. Raises InputError for a folder without a model, or with one whose layer is not known.
    """

    name, asks = "bert_score", "a folder of weights"
    needs = (ANY_ANSWER, "reference")

    def __init__(self, folder: str):
        self._tokenizer, self._model, self._max_tokens = load_encoder(folder)
        config = self._model.config
        self._type = config.model_type
        if (self._type, config.num_hidden_layers) not in LAYERS:
            raise InputError(f"{folder}: no layer is known for {self._type} with {config.num_hidden_layers} layers")
        self._layer = LAYERS[self._type, config.num_hidden_layers]
        self.identity = f"bert_score weights {model_sha256(folder)} layer {self._layer}"

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for example in examples:
            scores: list[Score] = []
            parts: list[dict[str, float]] = []
            for answer in example.answers:
                try:
                    precision, recall = match(self._tokens(answer), self._tokens(example.reference))
                    if math.isnan(precision + recall):
                        raise ValueError("the model's vectors are not finite")
                    scores.append(Score(harmonic_mean((precision, recall))))
                    parts.append({"precision": precision, "recall": recall})
                except (ValueError, RuntimeError, IndexError) as error:  # too long, below 0, out of memory
                    scores.append(Score(None, f"failed: {one_line(str(error))}"))
                    parts.append({})
            yield Scored(example.id, tuple(scores), {"answers": parts})

    def _tokens(self, text: str) -> tuple[Any, Any]:
        """Return unit vectors (tokens, width), and which count (tokens,). Raises ValueError if the text is too long."""
        import torch

        text = text.encode("utf-8", "replace").decode().strip()
        text = f" {text}" if text and self._type == "roberta" else text  # the first word is then like any other
        encoded = self._tokenizer(text, return_tensors="pt")
        (ids,) = encoded["input_ids"]
        counts = (ids != self._tokenizer.cls_token_id) & (ids != self._tokenizer.sep_token_id)
        if len(counts) > self._max_tokens:
            raise ValueError(f"text needs {len(counts)} tokens, the model's window is {self._max_tokens}")
        with torch.inference_mode():
            states = self._model(**encoded.to(self._model.device), output_hidden_states=True).hidden_states
        return torch.nn.functional.normalize(states[self._layer][0].float(), dim=-1).cpu(), counts


def match(answer: tuple[Any, Any], reference: tuple[Any, Any]) -> tuple[float, float]:
    """Return precision and recall in [-1, 1]: the mean over counted tokens of the best cosine with the other text.

    answer, reference: (unit vectors, which of them count), as torch tensors. The result is (0, 0) if one of them has no
    token that counts.
    """
    (ours, ours_count), (theirs, theirs_count) = answer, reference
    if not ours_count.any() or not theirs_count.any():
        return 0.0, 0.0
    cosines = ours @ theirs.T
    precision, recall = cosines.amax(dim=1)[ours_count].mean(), cosines.amax(dim=0)[theirs_count].mean()
    return float(precision), float(recall)
