"""Models that say how far one text supports another: NLI classifiers, and those that come with code of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, model_sha256, read_json
from rag_zeval.models.transformers_local import load_folder

LONGEST = 512  # tokens of premise and hypothesis together
BATCH = 32
UNNAMED = {"label_0": 0, "label_1": 1}  # two classes, as transformers calls them where a model does not: MiniCheck's
Pair = tuple[str, str]  # premise, hypothesis


class Checker(Protocol):
    """A model of support. `identity` changes with its weights, and with its code where it has any."""

    identity: str

    def fits(self, pair: Pair) -> bool:
        """Whether the model can read the two texts whole."""

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        """How far each premise supports its hypothesis, in [0, 1]; None where they do not fit."""


def open_checker(folder: str, remote_code: bool) -> Checker:
    """The folder's model; its own code is run only if it wants that and `remote_code` allows it.

    Raises InputError for a folder whose model cannot be used.
    """
    return OwnCode(folder) if remote_code and wants_code(folder) else NLI(folder)


class NLI:
    """Probability of the label "entailment" by a folder's sequence classification model, computed in fp32.

    A model of two unnamed classes is MiniCheck's (Tang et al. 2024, arXiv:2404.10774): the second one is "supported",
    and it reads both texts as one, with the tokenizer's mark of an end between them where it has one.
    Raises InputError for a folder without a model, or with one that is not trained for this.
    """

    def __init__(self, folder: str):
        self.identity = f"nli weights {model_sha256(folder)}"
        self._tokenizer, self._model, missing = load_folder(folder, "AutoModelForSequenceClassification")
        labels = {label.lower(): at for at, label in self._model.config.id2label.items()}
        if (labels != UNNAMED and "entailment" not in labels) or missing:
            raise InputError(
                f"{folder}: is not a trained NLI model (labels: {', '.join(labels)}; missing weights: {missing})"
            )
        self._supported = labels.get("entailment", 1)
        self._between = self._tokenizer.eos_token if labels == UNNAMED else None
        positions = getattr(self._model.config, "max_position_embeddings", None) or LONGEST
        self._window = min(LONGEST, self._tokenizer.model_max_length, positions)

    def fits(self, pair: Pair) -> bool:
        return bool(len(self._encode([pair])["input_ids"][0]) <= self._window)

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        tokens = [len(ids) for ids in self._encode(pairs)["input_ids"]] if pairs else []
        values: list[float | None] = [None] * len(pairs)
        short = sorted((n, at) for at, n in enumerate(tokens) if n <= self._window)
        for start in range(0, len(short), BATCH):
            batch = [at for _, at in short[start : start + BATCH]]
            for at, value in zip(batch, self._probabilities([pairs[at] for at in batch]), strict=True):
                values[at] = value
        return values

    def _probabilities(self, pairs: Sequence[Pair]) -> list[float]:
        import torch

        inputs = self._encode(pairs, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**inputs.to(self._model.device)).logits
        values: list[float] = logits.float().softmax(-1)[:, self._supported].tolist()
        return values

    def _encode(self, pairs: Sequence[Pair], **settings: Any) -> Any:
        both = [(self._plain(premise), self._plain(hypothesis)) for premise, hypothesis in pairs]
        if self._between:
            return self._tokenizer([self._between.join(texts) for texts in both], verbose=False, **settings)
        return self._tokenizer(*map(list, zip(*both, strict=True)), verbose=False, **settings)

    def _plain(self, text: str) -> str:
        """Without what the tokenizer takes for its own marks: it would move the boundary between the two texts."""
        for mark in self._tokenizer.all_special_tokens:
            text = text.replace(mark, " ")
        return text.encode("utf-8", "replace").decode()


class OwnCode:
    """A model by the code in its folder, which must have `predict(pairs)`: HHEM. It has no window.

    Raises InputError where the code cannot be loaded or a weight is missing, with whatever the code raised.
    """

    def __init__(self, folder: str):
        code = "".join(
            f"{path.relative_to(folder)} {file_sha256(path)}\n" for path in sorted(Path(folder).rglob("*.py"))
        )
        self.identity = f"code {hashlib.sha256(code.encode()).hexdigest()} weights {model_sha256(folder)}"
        _, self._model, missing = load_folder(folder, "AutoModelForSequenceClassification", own_code=True)
        if missing:  # they would be random
            raise InputError(f"{folder}: missing weights: {missing}")
        if not callable(getattr(self._model, "predict", None)):
            raise InputError(f"{folder}: its code has no predict(pairs)")

    def fits(self, pair: Pair) -> bool:
        return True

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        """Raises ValueError for what is no score, and whatever the code raises."""
        return [self._ask(pair) for pair in pairs]  # one by one: the code pads, and a long pair needs much memory

    def _ask(self, pair: Pair) -> float:
        import torch

        with torch.inference_mode():
            (value,) = map(float, self._model.predict([pair]))
        if not 0 <= value <= 1:
            raise ValueError(f"predict gave {value}, which is not in [0, 1]")
        return value


def wants_code(folder: str) -> bool:
    """Whether a model's configuration names code to be run. Raises InputError for code that is not in the folder."""
    path = Path(folder) / "config.json"
    named = read_json(path).get("auto_map")
    if "--" in json.dumps(named):  # REPOSITORY--MODULE.CLASS
        raise InputError(
            f"{path}: field 'auto_map': names code of another repository; only code in the folder itself can be run"
        )
    return bool(named)
