"""What a question measures in tokens, and whether the model can take it: asked in the draw, and before answering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.models.language_model import one_line
from synthesize.prompt import prompt_ids, qa_prompt
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion


class Fitting:
    """The model folder's tokenizer and window, loaded when the first question is measured.

    Raises InputError then, when transformers cannot load them, or the tokenizer lacks the chat template asked for.
    """

    def __init__(self, settings: Settings):
        self.settings = settings

    @cached_property
    def tokenizer(self) -> Any:
        with loading(self.settings) as path:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if self.settings.chat_template and not tokenizer.chat_template:
            raise InputError(f"{self.settings.model}: the tokenizer has no chat template; set chat_template=false")
        return tokenizer

    @cached_property
    def window(self) -> int | None:
        with loading(self.settings) as path:
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        return getattr(config, "max_position_embeddings", None)

    def prompt(self, question: str, passage: str | None) -> list[int]:
        """Token ids of the prompt with a passage, or without."""
        prompt = qa_prompt(self.settings.prompt, question, passage)
        return prompt_ids(self.tokenizer, prompt, self.settings.chat_template)

    def refusal(self, question: SourceQuestion) -> str | None:
        """Why the question is too long for the model, or for `max_passage_tokens`; None if it is not."""
        limit = self.settings.max_passage_tokens
        passage_tokens = len(self.tokenizer(question.passage, add_special_tokens=False, verbose=False).input_ids)
        if limit is not None and passage_tokens > limit:
            return f"passage has {passage_tokens} tokens, max_passage_tokens is {limit}"
        needed = len(self.prompt(question.question, question.passage)) + self.settings.max_new_tokens
        if self.window is not None and needed > self.window:
            return f"prompt and answer need {needed} tokens, the model's window is {self.window}"
        return None


@contextmanager
def loading(settings: Settings) -> Iterator[str]:
    """The model's folder as a plain path, so that nothing is ever looked up on a hub; what fails is an InputError."""
    from safetensors import SafetensorError

    try:
        yield str(Path(settings.model).resolve())
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{settings.model}: transformers cannot load it: {one_line(str(error) or type(error).__name__)}"
        ) from error
