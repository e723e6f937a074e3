"""Tokens of the policy's tokenizer, such that a sentence has the same ones alone and inside a passage.

Tokenizers glue a space to the start of a word (Qwen) or to its end (nano). A sentence quoted from the middle of a
passage would then begin or end with another token than it has there, and an exact quote would never score 1. So the
whitespace at the edges of a text is dropped, and inside it a token is marked if whitespace stands before it, wherever
the tokenizer put that whitespace. Inside a text nothing is dropped: words without their spaces are other tokens.
"""

import unicodedata
from typing import Any

from rag_zeval.text import without_surrogates

SPACE = " "  # a token of whitespace alone, and the mark on a token that whitespace stands before


class PolicyTokens:
    """Callable text -> token texts, for any transformers tokenizer; the first one has the mark of whitespace.

    Unicode that is composed otherwise (NFC or NFD) gives the same tokens.

    >>> PolicyTokens(AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct"))("The cat sat.")  # doctest: +SKIP
    [' The', ' cat', ' sat', '.']
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}
        # A token alone may be decoded without the space at its start: so each is decoded after this one.
        self._before = self._ids("a")[-1:]
        self._text_before = self._decoded(self._before)

    def __call__(self, text: str) -> list[str]:
        tokens, gap = [], False
        for token_id in self._ids(SPACE + unicodedata.normalize("NFC", without_surrogates(text)).strip()):
            token = self._texts[token_id] if token_id in self._texts else self._text(token_id)
            bare = token.strip()
            tokens.append(SPACE + bare if gap or token[:1].isspace() else bare)
            gap = token[-1:].isspace()
        first = next((at for at, token in enumerate(tokens) if token != SPACE), len(tokens))
        return tokens[first:]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _decoded(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        return text

    def _text(self, token_id: int) -> str:
        decoded = self._decoded([*self._before, token_id]).removeprefix(self._text_before)
        # A byte token decodes to U+FFFD whatever its byte: keep such tokens apart by their id.
        self._texts[token_id] = f"<{token_id}>" if "\ufffd" in decoded else decoded
        return self._texts[token_id]
