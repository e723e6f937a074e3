"""The question-answering prompts, with the passage and without: the two streams of context-aware decoding.

"two-shot" (real text) stands in `prompts/*.txt`; "nano" is the prompt the nano base was taught with.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages.world import answer_prompt

PROMPTS = Path(__file__).parent / "prompts"


def qa_prompt(kind: str, question: str, passage: str | None) -> str:
    """The prompt of a kind ("nano" or "two-shot"); without the passage where `passage` is None."""
    if kind == "nano":
        return answer_prompt(question, passage)
    values = {"question": question, "passage": passage or ""}
    template = _template("without_passage" if passage is None else "with_passage")
    # one pass, so that a passage which spells a place holder is not filled again
    return re.sub(r"\{(question|passage)\}", lambda field: values[field[1]], template)


@cache
def _template(name: str) -> str:
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").strip()


def prompt_hash(kind: str) -> str:
    """First 16 hex digits of the sha256 of both prompts with their places unfilled."""
    both = qa_prompt(kind, "{question}", "{passage}") + "\0" + qa_prompt(kind, "{question}", None)
    return hashlib.sha256(both.encode()).hexdigest()[:16]


def prompt_ids(tokenizer: Any, prompt: str, chat_template: bool) -> list[int]:
    """Token ids of a prompt, as the user's message in the tokenizer's chat template or as plain text to complete.

    A control token spelt out in a passage stays text: it is broken by a space, so no passage can end its message.
    """
    if controls := _controls(tokenizer):
        start = f"(?={'|'.join(map(re.escape, sorted(controls)))})(.)"  # also where one begins inside another
        prompt = re.sub(start, r"\1 ", prompt)
    if chat_template:
        return chat_ids(tokenizer, [{"role": "user", "content": prompt}])
    ids: list[int] = tokenizer(prompt).input_ids
    return ids


def _controls(tokenizer: Any) -> set[str]:
    """What may mean something to this model beyond its letters.

    The tokens beside its vocabulary, of which not all are called special (Qwen's `<tool_call>`), and the marks that its
    chat template writes as plain text (Llama 2's `[INST]`). White space is none, though some vocabularies add runs.
    """
    marks = re.findall(r"<+[^\s<>'\"{}]+>+|\[/?[A-Z_]+\]", str(tokenizer.chat_template or ""))
    tokens = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), *marks}
    return {token for token in tokens if len(token.strip()) > 1}
