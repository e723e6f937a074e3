"""Tokens of the policy's tokenizer, changed so that a sentence has the same tokens alone and inside a passage.

Tokenizers attach a space to the start of a word (Qwen) or to its end (nano). So a sentence from the middle of a passage
has another first or last token when it is tokenized alone, and an exact quote would never score 1. `PolicyTokens`
therefore drops the whitespace at the edges of a text. Inside a text it marks each token that follows whitespace,
wherever the tokenizer put that whitespace. It drops nothing inside: words without their spaces are different tokens.
"""

import unicodedata
from typing import Any

from rag_zeval.text import without_surrogates

SPACE = " "  # a token of whitespace only, and the mark of a token that follows whitespace


class PolicyTokens:
    """Callable that returns the token texts of a text, for any transformers tokenizer.

    The first token always has the whitespace mark. NFC and NFD forms of a text give the same tokens.

    >>> PolicyTokens(AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct"))("The cat sat.")  # doctest: +SKIP
    [' The', ' cat', ' sat', '.']
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}
        # Decoding a single token may drop the space at its start, so each token is decoded after this one.
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
        # Every byte token decodes to U+FFFD, so such tokens are told apart by their id.
        self._texts[token_id] = f"<{token_id}>" if "\ufffd" in decoded else decoded
        return self._texts[token_id]
