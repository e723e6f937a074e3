"""What a folder with a Hugging Face model says without loading it: its window, weights, hash, revision and card."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, check_object, file_sha256, locate, read_json
from rag_zeval.text import one_line

ANSWER_SENTENCES, STRUCTURED = "answer_sentences", "structured"  # fields of a judge's card that are no texts
HASHED = ("*.safetensors", "*.bin", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
# Where transformers looks for a model's weights: the first of these that is there.
LOADED = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def model_config(folder: str | Path) -> Path:
    """Return the path of a model's config.json. Raises InputError if the folder holds no model."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: no model in this folder (config.json is missing)")
    return path


@contextmanager
def loading(folder: str) -> Iterator[str]:
    """Yield a model's folder as an absolute path, so that transformers never looks on a hub.

    Any error inside becomes an InputError: code of the folder may raise anything, and safetensors has its own errors.
    """
    try:
        yield str(Path(folder).resolve())
    except Exception as error:
        reason = one_line(str(error)) or type(error).__name__
        raise InputError(f"{folder}: not a model transformers can load: {reason}") from error


def window_of(config: Any, where: object) -> int | None:
    """Return the context window that a model's configuration names; None if it names none.

    config: the content of config.json, or transformers' object, which knows other names and defaults. where: a file or
    folder, for errors. Raises InputError if the window is not a whole number above 0.
    """
    name = "max_position_embeddings"
    size = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
    if size is not None and (type(size) is not int or size < 1):
        raise InputError(f"{where}: field '{name}' must be a whole number above 0, found {one_line(str(size))}")
    return size


def check_weights(folder: str | Path) -> None:
    """Raise InputError if a model folder lacks the weights that transformers loads, or some of their files.

    The weights are one file, or several that an index names. Only names are looked at, so this takes no time: a file
    that is cut short shows when it is loaded.
    """
    folder = model_config(folder).parent
    first = next((folder / name for name in LOADED if (folder / name).is_file()), None)
    if first is None:
        raise InputError(f"{folder}: no weights in this folder, such as {LOADED[0]}; download the model again")
    if first.suffix == ".json":
        parts = check_object(first, read_json(first), {"weight_map": dict})["weight_map"]
        if lacking := sorted({str(part) for part in parts.values() if not (folder / str(part)).is_file()}):
            raise InputError(f"{first}: names {lacking[0]}, which is missing; download the model again")


def model_sha256(folder: str | Path) -> str:
    """Return a hex sha256 over the files of a model folder that change its output: weights, config, tokenizer.

    Raises InputError if the folder holds no model.
    """
    folder = model_config(folder).parent
    files = sorted({path for pattern in HASHED for path in folder.glob(pattern)})
    listing = "".join(f"{path.name} {file_sha256(path)}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def model_revision(folder: str | Path) -> str | None:
    """Return the hub's commit (40 hex digits) that a model folder claims to come from; None if it names none.

    `hf download --local-dir` leaves a note beside each file, and the hub's cache names the folder after the commit.
    Nothing checks that the files still match it: `model_sha256` identifies their content.
    """
    folder = Path(folder).resolve()
    note = folder / ".cache" / "huggingface" / "download" / "config.json.metadata"
    if note.is_file():
        said = note.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    else:
        said = folder.name if folder.parent.name == "snapshots" else ""
    return said if re.fullmatch(r"[0-9a-f]{40}", said) else None


def read_card(folder: str | Path) -> dict[str, Any]:
    """Return the content of `rag_zeval.json` in a checkpoint folder; {} if there is no such file.

    Raises InputError if "answer_sentences" is there and is no whole number of 1 or more, if "structured" is there and
    is neither true nor false, or if another field is no text.
    """
    path = Path(folder) / "rag_zeval.json"
    if not path.is_file():
        return {}
    card: dict[str, Any] = read_json(path)
    with locate(path):
        kinds = {ANSWER_SENTENCES: int, STRUCTURED: bool}
        check_fields(card, {name: kinds.get(name, str) for name in card})
        if card.get(ANSWER_SENTENCES, 1) < 1:
            raise InputError(f"field '{ANSWER_SENTENCES}' must be 1 or more, found {card[ANSWER_SENTENCES]}")
    return card
