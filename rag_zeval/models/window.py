"""Reads a model's context window and card from its folder, without loading its weights."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rag_zeval.errors import InputError, needed
from rag_zeval.models.folder import loading, read_card, window_of
from rag_zeval.models.language_model import Messages, chat_ids
from rag_zeval.models.open import folder_of

NO_CARD: Mapping[str, Any] = MappingProxyType({})


class Window:
    """The window and the tokenizer of a model in a folder. max_context and count_tokens are as in `Backend`.

    Raises InputError if transformers cannot read them.
    """

    def __init__(self, folder: str):
        with needed("transformers", f"{folder}: a local model"):
            import transformers
        with loading(folder) as path:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
            config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
        if not self._tokenizer.chat_template:
            raise InputError(f"{folder}: the tokenizer has no chat template")
        self.max_context = window_of(config, folder)

    def count_tokens(self, messages: Messages) -> int:
        return len(chat_ids(self._tokenizer, messages))


def open_window(spec: str | None) -> Window | None:
    """Return the window of the model that a spec names; None for an endpoint or a folder that does not exist (yet)."""
    folder = _folder(spec)
    return Window(folder) if folder else None


def card_of(spec: str | None) -> Mapping[str, Any]:
    """Return the card (see `Backend`) of the model that a spec names; empty if `open_window` returns None."""
    folder = _folder(spec)
    return read_card(folder) if folder else NO_CARD


def _folder(spec: str | None) -> str | None:
    folder = None if spec is None else folder_of(spec)
    return folder if folder and Path(folder).is_dir() else None
