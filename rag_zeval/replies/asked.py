"""What a judge was asked: what its reply may repeat of it is no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_zeval.replies.echo import Echo, letters_of, plain_form

LABEL = "Output:"  # ends the prompts, and a judge may write it before its answer
SENTENCE = 4  # words that no label has
KNOWN = 12  # letters of a line from which on it is known as a part of the instructions


@dataclass(frozen=True)
class Asked:
    """The instructions of a prompt, and the inputs in it (JSON), whose texts the judge was shown."""

    instructions: str = ""
    inputs: Any = None

    @cached_property
    def echo(self) -> Echo:
        """What the texts that were shown spell out."""
        return Echo(_texts(self.inputs))

    def is_repeated_by(self, said: str) -> bool:
        """Whether a text holds a line of the instructions, or so much of one that it is known."""
        for line in filter(None, map(plain_form, said.splitlines())):
            letters = letters_of(line)
            if len(letters) >= KNOWN and letters in self._letters:
                return True
            is_head = line.endswith(":") and letters and any(head.endswith(line) for head in self._heads)
            if is_head and line != plain_form(LABEL):
                return True
        return False

    def has_example(self, value: Any, written: str, repeated: bool) -> bool:
        """Whether a value of a reply, as it is written there, is an example of the instructions.

        One without a sentence, such as a label, may be the judge's own all the same, unless the reply `repeated` more.
        """
        has_sentence = any(len(text.split()) >= SENTENCE for text in _texts(value))
        return (repeated or has_sentence) and letters_of(plain_form(written)) in self._letters

    @cached_property
    def _letters(self) -> str:
        return letters_of(plain_form(self.instructions))

    @cached_property
    def _heads(self) -> list[str]:
        return [plain_form(line) for line in self.instructions.splitlines() if line.endswith(":")]


def _texts(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, (list, tuple)):
            todo.extend(value)
