"""Complete a folder of weights so that any library can load it: tokenizer, dtype, the judge's card."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_zeval.files import read_json, write_json
from rag_zeval.stages.weights import share_weights

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
)
DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}  # names in safetensors and in config.json


def complete(model: Path, tokenizers: Iterable[Path], card: Mapping[str, Any]) -> None:
    """Add the tokenizer, the dtype and the card to a folder with weights and config.json, which others may then read.

    tokenizers: folders that may have tokenizer files. If several have the same file, the last one counts. card: content
    of the judge's `rag_zeval.json`.
    """
    for source in tokenizers:
        for name in TOKENIZER_FILES:
            if (source / name).is_file():
                shutil.copyfile(source / name, model / name)
    _say_dtype(model)
    share_weights(model)
    write_json(model / "rag_zeval.json", card)


def _say_dtype(model: Path) -> None:
    """Write the dtype of the weights into config.json. verl 0.9.1 always writes bfloat16 there, and loaders use it."""
    from safetensors import safe_open

    dtypes = set()
    for path in model.glob("*.safetensors"):
        with safe_open(path, framework="numpy") as weights:
            dtypes |= {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118 (no mapping)
    if len(dtypes) == 1 and (dtype := DTYPES.get(dtypes.pop())):
        write_json(model / "config.json", {**read_json(model / "config.json"), "dtype": dtype})
