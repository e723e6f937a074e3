import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.literal_judge import word_vector
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedding, OpenAIEmbedder, cosine
from rag_zeval.models.open import open_embedder

WINDOW = 96  # of `tiny_model`
vectors = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3)


def embedded(embedder: Any, *texts: str) -> list[Embedding]:
    found = dict(as_finished(embedder.embed, texts, embedder.at_once))
    assert sorted(found) == list(range(len(texts)))
    return [found[i] for i in range(len(texts))]


@given(vectors, vectors, st.floats(0.01, 100))
def test_a_cosine_knows_directions_only(first: list[float], second: list[float], scale: float) -> None:
    found = cosine(first, second)
    norm = math.sqrt(sum(x * x for x in first)) * math.sqrt(sum(x * x for x in second))
    if norm < 1e-100:
        return
    assert found == pytest.approx(sum(a * b for a, b in zip(first, second, strict=True)) / norm, abs=1e-9)
    assert found is not None and -1 <= found <= 1
    assert cosine([scale * x for x in first], second) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], [1.0, math.inf]])
def test_a_vector_that_is_zero_or_not_finite_has_no_cosine(vector: list[float]) -> None:
    assert cosine(vector, [1.0, 0.0]) is cosine([1.0, 0.0], vector) is None
    with pytest.raises(ValueError):
        cosine([1.0], [1.0, 0.0])


def test_an_endpoint_gives_vectors_with_their_accounting(scripted_judge: Any) -> None:
    one, other = embedded(open_embedder(scripted_judge.spec("small")), "Ann was born", "Ann was born in May")
    assert one.vector == tuple(word_vector("Ann was born")) and one != other
    assert (one.status, one.prompt_tokens, one.calls, one.retries, one.cached) == ("ok", 3, 1, 0, False)
    assert {request["model"] for request in scripted_judge.requests} == {"small"}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("nan", "empty or not finite"),
        ("empty", "empty or not finite"),
        ({"status": 200, "body": {"data": [{"embedding": "x"}]}}, "no embedding"),
        ({"status": 200, "body": {"data": []}}, ""),
        ({"status": 200, "body": [1]}, ""),
    ],
)
def test_what_is_no_vector_is_the_status_of_that_text_alone(scripted_judge: Any, fault: Any, reason: str) -> None:
    scripted_judge.faults = [fault]
    bad, good = embedded(OpenAIEmbedder("m", scripted_judge.url, concurrency=1), "bad", "good")
    assert bad.vector is None and bad.status.startswith("failed: ") and reason in bad.status, bad.status
    assert (bad.calls, good.status) == (1, "ok")


def test_a_vector_is_paid_for_once_and_is_the_same_from_the_cache(scripted_judge: Any, tmp_path: Path) -> None:
    scripted_judge.vector = lambda text: [0.1, len(text) / 3]  # neither is exact in 32 bits
    cache = ReplyCache(tmp_path / "replies.sqlite")
    fresh = embedded(CachedEmbedder(open_embedder(scripted_judge.spec()), cache), "a", "bb", "a")
    assert len(scripted_judge.requests) == 2
    assert [(e.calls, e.cached) for e in fresh] == [(1, False), (1, False), (0, True)]
    scripted_judge.faults = ["500"] * 12
    kept = embedded(CachedEmbedder(open_embedder(scripted_judge.spec()), cache), "bb", "a")
    assert [e.vector for e in kept] == [fresh[1].vector, fresh[0].vector]
    assert [(e.calls, e.prompt_tokens, e.cached) for e in kept] == [(0, 3, True)] * 2
    other = CachedEmbedder(OpenAIEmbedder("other", scripted_judge.url, max_retries=0), cache)
    assert [e.status for e in embedded(other, "a")] == ["failed: HTTP 500: broken"]  # another model, another vector


def write_modules(folder: Path, mode: str, *more: str) -> None:
    kinds = ("Transformer", "Pooling", *more)
    modules = [{"path": f"1_{kind}", "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{name}": name == mode for name in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))


def test_a_local_vector_is_the_mean_or_the_first_token_as_the_folder_says(model_copy: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(model_copy)("ann was born", return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(model_copy).eval()(**ids).last_hidden_state[0]
    identities = set()
    for mode, expected in ((None, states.mean(0)), ("mean_tokens", states.mean(0)), ("cls_token", states[0])):
        if mode:
            write_modules(model_copy, mode, "Normalize")
        embedder = open_embedder(str(model_copy))
        (found,) = embedded(embedder, "ann was born")
        assert found.vector == pytest.approx(expected.tolist(), abs=1e-6)
        assert (found.status, found.prompt_tokens, found.calls) == ("ok", 12, 1)
        identities.add(embedder.identity)
    assert len(identities) == 2
    for mode, more, message in (("max_tokens", (), "pools by"), ("mean_tokens", ("Dense",), "module 'Dense'")):
        write_modules(model_copy, mode, *more)
        with pytest.raises(InputError, match=message):
            open_embedder(str(model_copy))


def test_a_text_that_does_not_fit_fails_and_is_not_cut(tiny_model: str) -> None:
    empty, fits, too_long = embedded(open_embedder(tiny_model), "", "a" * WINDOW, "a" * (WINDOW + 1))
    assert empty.status == f"failed: text needs 0 tokens, the model's window is {WINDOW}"
    assert fits.status == "ok"
    assert (too_long.vector, too_long.status) == (None, f"failed: text needs 97 tokens, the model's window is {WINDOW}")


def test_what_names_no_model_is_refused(tmp_path: Path) -> None:
    for spec, message in (
        (str(tmp_path / "none"), "no such folder; name a model as FOLDER or openai:MODEL@http"),
        (str(tmp_path), "no model in this folder"),
    ):
        with pytest.raises(InputError, match=message):
            open_embedder(spec)
