"""Whether a server read the prompt that it was sent: some cut one that is longer than their window, and do not say so.

A server tells how many tokens it read. No tokenizer is at hand to say how many there are, so a prompt counts as cut
only where no tokenizer could have made so few tokens of it.
"""

from __future__ import annotations

import re
from typing import Any

from rag_zeval.budget import token_count

SMALLEST_WINDOW = 512  # tokens; who tells fewer than that counts otherwise: parts that were cached are left out, or all
# A word between spaces, or eight characters of a script that has none. A longer run of any text is one word, so that
# base64, code without spaces or a line of dots count as good as nothing.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]{{1,8}}|[^\s{_CJK}]+")
_WORDS_PER_TOKEN = 1.5  # for sure fewer than that: tokenizers of today begin a token at every word


def least_tokens(text: str) -> int:
    """The fewest tokens that a tokenizer can make of a text: two for three of its different runs of three words.

    A token can stand for a long run of the same characters or words, but such a run has few different runs inside.
    """
    words = _WORD.findall(text)
    return int(len(set(zip(words, words[1:], words[2:], strict=False))) / _WORDS_PER_TOKEN)


class PromptReader:
    """A model at an endpoint, by the tokens of prompts that it says it read.

    reader = PromptReader()
    reader.check("the whole prompt", {"usage": {"prompt_tokens": 2048}})
    """

    def __init__(self) -> None:
        self._most = 0  # tokens of one prompt

    def check(self, prompt: str, answer: Any) -> None:
        """Raise ValueError for an answer that says that far fewer tokens were read than the prompt has.

        A server that tells of cached tokens is never meant. One that leaves them out without a word reads more of
        other prompts: who cuts a prompt keeps at least half of a window, which no other prompt can then exceed.
        """
        read = token_count(answer, "prompt_tokens")
        if read is None:
            return
        self._most = max(self._most, read)
        if read < SMALLEST_WINDOW or 2 * read < self._most or _tells_cached(answer["usage"]):
            return
        if read < (least := least_tokens(prompt)):
            raise ValueError(f"the server read only {read} of about {max(least, len(prompt) // 4)} tokens")


def _tells_cached(usage: Any) -> bool:
    """Whether any field of a usage that is named after a cache holds a number of tokens, at whatever place."""
    if not isinstance(usage, dict):
        return False
    return any(_tells_cached(value) or ("cache" in name and bool(value)) for name, value in usage.items())
