"""Tokens of the policy's tokenizer, such that a sentence has the same ones alone and inside a passage.

Tokenizers glue a space to the start of a word (Qwen) or to its end (nano). A sentence quoted from the middle of a
passage would then begin or end with another token than it has there, and an exact quote would never score 1. So every
text is read as if a space came before it, and tokens are compared without the whitespace at their edges.
"""

from __future__ import annotations

from typing import Any

from rag_zeval.judge.prompt import without_surrogates


class PolicyTokens:
    """Callable text -> token texts, whitespace stripped, empty ones left out; for any transformers tokenizer."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def __call__(self, text: str) -> list[str]:
        ids = self._tokenizer(" " + without_surrogates(text).strip(), add_special_tokens=False)["input_ids"]
        texts = [self._texts[i] if i in self._texts else self._text(i) for i in ids]
        return [token for token in texts if token]

    def _text(self, token_id: int) -> str:
        decoded = self._tokenizer.decode([token_id])
        # A byte token decodes to U+FFFD whatever its byte: keep such tokens apart by their id.
        self._texts[token_id] = f"<{token_id}>" if "\ufffd" in decoded else decoded.strip()
        return self._texts[token_id]
