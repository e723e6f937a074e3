"""Sentence embeddings from an OpenAI-compatible endpoint or a local folder, cached like replies."""

import base64
import hashlib
import json
import math
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rag_zeval.errors import InputError
from rag_zeval.files import read_json
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.endpoint import Endpoint
from rag_zeval.models.folder import model_sha256, window_of
from rag_zeval.models.language_model import Model, Reply
from rag_zeval.models.precision import choose_dtype, in_identity
from rag_zeval.models.transformers_local import load_folder
from rag_zeval.text import one_line, without_surrogates

Vector = tuple[float, ...]


@dataclass(frozen=True)
class Embedding(Reply):
    """The embedding of one text: a Reply whose text is a `packed` vector, without tokens of a completion."""

    @property
    def vector(self) -> Vector | None:
        """The vector; None if the text failed."""
        return None if self.text is None else tuple(array("f", base64.b64decode(self.text)))


class Embedder(Model, Protocol):
    """An embedding model. A text that fails gets an Embedding with status "failed: …"; it raises nothing."""

    async def embed(self, text: str) -> Embedding:
        """Return the embedding of one text. Raises InputError if the model cannot be reached at all."""


def cosine(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the cosine similarity of two vectors of equal length, in [-1, 1]; None if one is zero or not finite.

    Raises ValueError if the lengths differ.
    """
    norm = math.hypot(*first) * math.hypot(*second)
    product = sum(a * b for a, b in zip(first, second, strict=True))
    return max(-1.0, min(1.0, product / norm)) if 0 < norm < math.inf else None


class OpenAIEmbedder(Endpoint):
    """Embeddings from an Endpoint, one text per call, so that a rejected text fails alone."""

    async def embed(self, text: str) -> Embedding:
        body = {"model": self.name, "input": without_surrogates(text), "encoding_format": "float"}
        return embedding_of(await self.post("/embeddings", body, _read))


def _read(answer: Any) -> tuple[str, str]:
    try:
        vector = array("f", answer["data"][0]["embedding"])
    except (KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError("the endpoint's answer is no embedding") from error
    if not vector or not all(map(math.isfinite, vector)):
        raise ValueError("the endpoint sent a vector that is empty or not finite")
    return packed(vector), "ok"


def packed(vector: Iterable[float]) -> str:
    """Return a vector as text: base64 of 32-bit floats, so that new and cached vectors are equal."""
    return base64.b64encode(array("f", vector).tobytes()).decode("ascii")


def embedding_of(reply: Reply) -> Embedding:
    """Return the reply as an Embedding, without its completion tokens, `paid_tokens` and `bounded`."""
    costs = reply.calls, reply.retries, reply.seconds, reply.cached
    return Embedding(reply.text, reply.status, reply.prompt_tokens, None, *costs)


class LocalEmbedder:
    """A folder with a sentence-transformers model or another encoder, run with transformers (on a GPU if there is one).

    The vector is the mean of the last layer over all tokens, or its first token if the folder's `modules.json` says so
    (Reimers and Gurevych 2019, arXiv:1908.10084). A text that exceeds the window fails; it is not cut.
    spec: the folder, optionally with the dtype to compute in, as in `models/encoder@float32`. The default is float32 on
    a GPU, and the faster dtype on a CPU (`choose_dtype`).
    Raises InputError for a folder without a model, and for one that needs its own code or has further layers.
    """

    at_once = 1

    def __init__(self, spec: str):
        self.name = spec
        folder, dtype = choose_dtype(spec)
        self._first_token = _pools_first_token(folder)
        self.identity = f"weights {model_sha256(folder)} {'first token' if self._first_token else 'mean'}"
        self._tokenizer, self._model, self.max_tokens = load_encoder(folder, dtype)
        self.identity += in_identity(self._model)

    async def embed(self, text: str) -> Embedding:  # one at a time, so that a vector does not depend on its batch
        import torch

        started = time.perf_counter()
        encoded = self._tokenizer(text.encode("utf-8", "replace").decode(), verbose=False, return_tensors="pt")
        tokens = int(encoded["input_ids"].shape[1])
        if not 0 < tokens <= self.max_tokens:
            return Embedding(None, f"failed: text needs {tokens} tokens, the model's window is {self.max_tokens}")
        try:
            with torch.inference_mode():
                states = self._model(**encoded.to(self._model.device)).last_hidden_state[0].float()
        except (RuntimeError, IndexError, ValueError, AttributeError) as error:  # out of memory, or not such an encoder
            return Embedding(None, f"failed: {one_line(str(error))}", tokens, calls=1)
        pooled = states[0] if self._first_token else states.mean(dim=0)
        return Embedding(packed(pooled.tolist()), "ok", tokens, calls=1, seconds=time.perf_counter() - started)


def _pools_first_token(folder: str) -> bool:
    if not (Path(folder) / "modules.json").is_file():
        return False
    first_token = False
    for module in read_json(Path(folder) / "modules.json", list):
        kind = str(module.get("type")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind not in ("Transformer", "Pooling", "Normalize"):  # normalising does not change a cosine
            raise InputError(f"{folder}: modules.json names a module '{kind}', which is not supported")
        if kind == "Pooling":
            pooling = read_json(Path(folder) / str(module.get("path")) / "config.json", dict)
            modes = [key for key, value in pooling.items() if key.startswith("pooling_mode_") and value is True]
            if modes not in (["pooling_mode_mean_tokens"], ["pooling_mode_cls_token"]):
                raise InputError(f"{folder}: pools by {modes}; only the mean and the first token are supported")
            first_token = modes == ["pooling_mode_cls_token"]
    return first_token


def load_encoder(folder: str, dtype: str = "float32") -> tuple[Any, Any, int]:
    """Load a folder. Return its tokenizer, its model (on a GPU if there is one), and the most tokens of a text.

    Raises InputError if transformers cannot load it.
    """
    tokenizer, model, _ = load_folder(folder, "AutoModel", dtype)
    windows = (tokenizer.model_max_length, window_of(model.config, folder))
    return tokenizer, model, min(window for window in windows if window)


class CachedEmbedder:
    """An embedder with a cache: it asks another embedder only for texts that are not stored."""

    def __init__(self, embedder: Embedder, cache: ReplyCache):
        self._embedder, self._cache = embedder, cache
        self.name, self.identity, self.at_once = embedder.name, embedder.identity, embedder.at_once

    async def embed(self, text: str) -> Embedding:
        key = hashlib.sha256(json.dumps(["embedding", self.identity, text]).encode()).hexdigest()
        return embedding_of(await self._cache.reply(key, lambda: self._embedder.embed(text)))
