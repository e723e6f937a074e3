"""The precision of local models: measured or named, said in one line, part of the identity of replies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.errors import InputError
from rag_zeval.models import precision
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Request, Sampling
from rag_zeval.models.nli import open_checker
from rag_zeval.models.open import folder_of, open_backend, open_embedder
from rag_zeval.models.precision import choose_dtype, difference, speedup
from rag_zeval.models.window import open_window

torch = pytest.importorskip("torch")


def write_config(folder: Path, **fields: Any) -> str:
    (folder / "config.json").write_text(json.dumps(fields))
    return str(folder)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("times", "chosen"), [(0.4, "float32"), (1.19, "float32"), (1.21, "bfloat16"), (9, "bfloat16")]
)
@pytest.mark.usefixtures("no_gpu")
def test_bfloat16_is_chosen_where_it_is_clearly_faster(
    times: float, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = []
    monkeypatch.setattr(precision, "_measured", lambda *size: sizes.append(size) or times)
    folder = write_config(tmp_path, hidden_size=576, intermediate_size=1536)
    assert choose_dtype(folder) == (folder, chosen) and sizes == [(576, 1536)]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{folder}: computes in {chosen}; ") and f"{times:.1f} times as fast in bfloat16" in line


def test_a_named_dtype_is_neither_measured_nor_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(precision, "_measured", lambda *_: pytest.fail("measured"))
    folder = write_config(tmp_path, hidden_size=576)
    assert [choose_dtype(f"{folder}@{dtype}") for dtype in precision.DTYPES] == [(folder, d) for d in precision.DTYPES]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_dtype(folder, on_gpu="auto") == (folder, "auto") and choose_dtype(folder) == (folder, "float32")
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("no_gpu")
def test_small_and_unknown_models_stay_in_float32(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for config in ({"hidden_size": 192}, {"d_model": 64}, {"n_embd": 768}, {"hidden_size": "768"}):
        assert choose_dtype(write_config(tmp_path, **config))[1] == "float32"
    (tmp_path / "config.json").unlink()
    assert choose_dtype(str(tmp_path))[1] == "float32" and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("inner", [-1, 0, True, "300", None])
def test_an_inner_size_that_no_layer_has_is_not_measured(
    inner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_measured", lambda *size: size)
    assert speedup(write_config(tmp_path, hidden_size=256, intermediate_size=inner)) == (256, 1024)


def test_a_size_is_measured_once_and_in_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So two models of a size in one process are never computed in different precisions."""
    precision._measured.cache_clear()
    first = speedup(write_config(tmp_path, hidden_size=256, intermediate_size=300))
    assert first is not None and 0.01 < first < 100
    monkeypatch.setattr(precision.time, "perf_counter", lambda: pytest.fail("measured again"))
    assert speedup(str(tmp_path)) == first


def test_the_dtype_is_part_of_the_identity_in_every_process(tiny_model: str) -> None:
    plain, exact, rounded = (open_backend(tiny_model + end) for end in ("", "@float32", "@bfloat16"))
    assert plain.identity == exact.identity and rounded.identity == f"{exact.identity} bfloat16"
    assert rounded.name == f"{tiny_model}@bfloat16" and rounded.card == exact.card
    requests = [Request(({"role": "user", "content": "hello"},), Sampling(1.0, 1.0, 60), trial) for trial in range(64)]
    replies = []
    for backend in (rounded, open_backend(f"transformers:{tiny_model}@bfloat16", processes=2), exact):
        found = dict(as_finished(backend.complete, requests, len(requests)))
        replies.append([found[at].text for at in range(len(requests))])
    assert replies[0] == replies[1] != replies[2]  # rounding changes about one reply in eight


def test_vectors_and_checkers_name_their_dtype(tiny_model: str, write_nli: Callable[..., Path], tmp_path: Path) -> None:
    exact, rounded = (open_embedder(f"{tiny_model}@{dtype}") for dtype in precision.DTYPES)
    assert rounded.identity == f"{exact.identity} bfloat16" and exact.identity == open_embedder(tiny_model).identity
    vectors = [next(as_finished(one.embed, ["ann"], 1))[1].vector for one in (exact, rounded)]
    assert vectors[0] != vectors[1] and vectors[1] == pytest.approx(vectors[0], abs=0.1)
    for roberta in (False, True):
        folder = write_nli(tmp_path / str(roberta), ["LABEL_0", "LABEL_1"], roberta)
        checkers = [open_checker(f"{folder}@{dtype}", False) for dtype in precision.DTYPES]
        values = [checker.score([("the cat sat on a mat", "the dog sat")])[0] for checker in checkers]
        assert checkers[1].identity == f"{checkers[0].identity} bfloat16"
        assert values[0] != values[1] and values[1] == pytest.approx(values[0], abs=0.02)


@pytest.mark.parametrize("spec", ["", "transformers:", "@float32", "transformers:@bfloat16"])
def test_no_name_is_not_the_folder_that_we_are_in(spec: str, tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `--model "$MODEL"` with a variable that is not set."""
    monkeypatch.chdir(tiny_model)
    assert open_window(spec) is None
    for opened in (open_backend, open_embedder):
        with pytest.raises(InputError, match=f"'{spec}': no such folder; name a model as "):
            opened(spec)


def test_a_folder_is_found_behind_a_dtype() -> None:
    specs = (
        "m",
        "m@float32",
        "transformers:m@bfloat16",
        "vllm:m",
        "vllm:m@float32",
        "vllm:m@8",
        "m@float16",
        "openai:m@http://h/v1",
    )
    assert [folder_of(spec) for spec in specs] == ["m", "m", "m", "m", "m@float32", "m", "m@float16", None]


def test_an_error_about_the_precision_says_how_to_resume() -> None:
    assert difference("a bfloat16 p", "a p").endswith("name the model as FOLDER@bfloat16)")
    assert difference("a p", "a bfloat16 p").endswith("name the model as FOLDER@float32)")
    assert difference("a bfloat16 p", "b p") == " ('a' before, 'b' now)"
    assert difference("a p", "a p more") == " ('' before, 'more' now)"
    assert {difference(*two) for two in (("a", "a"), (None, "a"))} == {""}
