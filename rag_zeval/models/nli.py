"""Models that score how far one text supports another: NLI classifiers, and models that bring their own code."""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, read_json
from rag_zeval.models.folder import model_config, model_sha256, window_of
from rag_zeval.models.precision import choose_dtype, in_identity, split_dtype
from rag_zeval.models.transformers_local import load_folder

LONGEST = 512  # tokens of premise and hypothesis together
BATCH = 32
UNNAMED = {"label_0": 0, "label_1": 1}  # transformers' default names of two classes, which MiniCheck has
Pair = tuple[str, str]  # premise, hypothesis


class Checker(Protocol):
    """A model that scores support. `identity` changes with its weights, and with its code if it has its own."""

    identity: str

    def fits(self, pair: Pair) -> bool:
        """Whether the two texts fit the model's window."""

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        """Return how far each premise supports its hypothesis, in [0, 1]; None if the pair does not fit.

        Raises ValueError if the model gives anything else.
        """


def open_checker(spec: str, remote_code: bool) -> Checker:
    """Open the model in a folder. Its own code runs only if it asks for that and `remote_code` is True.

    spec: the folder, optionally with the dtype to compute in, as in `models/checker@float32`.
    Raises InputError if the model cannot be used.
    """
    return OwnCode(spec) if remote_code and wants_code(split_dtype(spec)[0]) else NLI(spec)


class NLI:
    """A sequence classification model. The score is its probability of the label "entailment".

    The default dtype is float32 on a GPU, and the faster one on a CPU (`choose_dtype`).
    A model with two unnamed classes is taken for MiniCheck (Tang et al. 2024, arXiv:2404.10774): the second class means
    "supported", and both texts form one input, joined by the tokenizer's end-of-sequence token if it has one.
    Raises InputError for a folder without a model, or with one that was not trained for NLI.
    """

    def __init__(self, spec: str):
        folder, dtype = choose_dtype(spec)
        self.identity = f"nli weights {model_sha256(folder)}"
        self._tokenizer, self._model, missing = load_folder(folder, "AutoModelForSequenceClassification", dtype)
        self.identity += in_identity(self._model)
        labels = {label.lower(): at for at, label in self._model.config.id2label.items()}
        if (labels != UNNAMED and "entailment" not in labels) or missing:
            raise InputError(
                f"{folder}: is not a trained NLI model (labels: {', '.join(labels)}; missing weights: {missing})"
            )
        self._supported = labels.get("entailment", 1)
        self._between = self._tokenizer.eos_token if labels == UNNAMED else None
        positions = window_of(self._model.config, folder) or LONGEST
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
        if any(map(math.isnan, values)):
            raise ValueError("the model gave no number")
        return values

    def _encode(self, pairs: Sequence[Pair], **settings: Any) -> Any:
        both = [(self._plain(premise), self._plain(hypothesis)) for premise, hypothesis in pairs]
        if self._between:
            return self._tokenizer([self._between.join(texts) for texts in both], verbose=False, **settings)
        return self._tokenizer(*map(list, zip(*both, strict=True)), verbose=False, **settings)

    def _plain(self, text: str) -> str:
        """Return the text without the tokenizer's special tokens, which would move the boundary between the texts."""
        for mark in self._tokenizer.all_special_tokens:
            text = text.replace(mark, " ")
        return text.encode("utf-8", "replace").decode()


class OwnCode:
    """A model that brings its own code, which must define `predict(pairs)`, such as HHEM. It has no window.

    It computes in float32, for which such code was written, unless `spec` names another dtype.
    Raises InputError if the code cannot be loaded or a weight is missing.
    """

    def __init__(self, spec: str):
        folder, dtype = split_dtype(spec)
        code = "".join(
            f"{path.relative_to(folder)} {file_sha256(path)}\n" for path in sorted(Path(folder).rglob("*.py"))
        )
        self.identity = f"code {hashlib.sha256(code.encode()).hexdigest()} weights {model_sha256(folder)}"
        kind = "AutoModelForSequenceClassification"
        _, self._model, missing = load_folder(folder, kind, dtype or "float32", own_code=True)
        self.identity += in_identity(self._model)
        if missing:  # they would be filled with random numbers
            raise InputError(f"{folder}: missing weights: {missing}")
        if not callable(getattr(self._model, "predict", None)):
            raise InputError(f"{folder}: its code has no predict(pairs)")

    def fits(self, pair: Pair) -> bool:
        return True

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        """As `Checker.score`. Also raises whatever the code raises."""
        return [self._ask(pair) for pair in pairs]  # one at a time: the code pads, and long pairs need much memory

    def _ask(self, pair: Pair) -> float:
        import torch

        with torch.inference_mode():
            (value,) = map(float, self._model.predict([pair]))
        if not 0 <= value <= 1:
            raise ValueError(f"predict gave {value}, which is not in [0, 1]")
        return value


def wants_code(folder: str) -> bool:
    """Whether a model's configuration asks for its own code. Raises InputError if that code is not in the folder."""
    path = model_config(folder)
    named = read_json(path).get("auto_map")
    if "--" in json.dumps(named):  # REPOSITORY--MODULE.CLASS
        raise InputError(
            f"{path}: field 'auto_map': names code of another repository; only code in the folder itself can be run"
        )
    return bool(named)
