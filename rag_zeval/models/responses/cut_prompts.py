"""Detects servers that silently cut a prompt to their window.

A server reports how many tokens it read. We do not have its tokenizer, so a prompt counts as cut only if no tokenizer
could have encoded it in so few tokens.
"""

import re
from typing import Any

from rag_zeval.budget import token_count

SMALLEST_WINDOW = 512  # tokens; a smaller count is no window: cached parts, or everything, were not counted
# A word between spaces, or at most eight characters of a script without spaces, with whatever is between them: a token
# may mix scripts. Any other run of characters is one word. Base64 and code without spaces hardly count.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_OTHER = rf"[^\s{_CJK}]"
_WORD = re.compile(rf"(?:{_OTHER}*[{_CJK}]){{1,8}}{_OTHER}*|{_OTHER}+")
_WORDS_PER_TOKEN = 1.5  # a safe upper bound: today's tokenizers begin a new token at every word


def least_tokens(text: str) -> int:
    """Return a lower bound for the number of tokens of a text in any tokenizer: two for three distinct word triples.

    Only distinct triples count, because one token may encode a long repetition of the same characters or words.
    """
    words = _WORD.findall(text)
    return int(len(set(zip(words, words[1:], words[2:], strict=False))) / _WORDS_PER_TOKEN)


class CutPromptDetector:
    """Checks each answer of one model for the number of prompt tokens that it reports.

    detector = CutPromptDetector()
    detector.check("the whole prompt", {"usage": {"prompt_tokens": 2048}})
    """

    def __init__(self) -> None:
        self._most = 0  # tokens of one prompt

    def check(self, prompt: str, answer: Any) -> None:
        """Raise ValueError if an answer reports far fewer tokens than the prompt has.

        A server that reports cached tokens is never accused. Neither is one that has reported more than twice as many
        tokens for another prompt, because it may leave out cached tokens silently. A server that cuts prompts cannot do
        so: it keeps at least half of its window, and never reads more than its window.
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
    """Whether a field of the usage, at any depth, has "cache" in its name and a number above 0."""
    if not isinstance(usage, dict):
        return False
    return any(_tells_cached(value) or ("cache" in name and bool(value)) for name, value in usage.items())
