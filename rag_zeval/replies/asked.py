"""The prompt that a judge was given. What its reply repeats of it is not an answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_zeval.replies.echo import Echo, letters_of, plain_form
from rag_zeval.replies.loose_json import values_within

LABEL = "Output:"  # the last line of the prompts, which a judge may repeat before its answer
SENTENCE = 4  # words; labels are shorter
KNOWN = 12  # letters; a shorter line may equal a part of the instructions by chance


@dataclass(frozen=True)
class Asked:
    """The instructions of a prompt, and its inputs (JSON), whose texts were shown to the judge."""

    instructions: str = ""
    inputs: Any = None

    @cached_property
    def echo(self) -> Echo:
        """The values and claims that the shown texts contain."""
        return Echo(_texts(self.inputs))

    def is_repeated_by(self, said: str) -> bool:
        """Whether a text contains a line of the instructions, or a recognisable part of one."""
        for line in filter(None, map(plain_form, said.splitlines())):
            letters = letters_of(line)
            if len(letters) >= KNOWN and letters in self._letters:
                return True
            is_head = line.endswith(":") and letters and any(head.endswith(line) for head in self._heads)
            if is_head and line != plain_form(LABEL):
                return True
        return False

    def has_example(self, value: Any, written: str, repeated: bool) -> bool:
        """Whether a value of a reply is copied from an example in the instructions. written: the value's text there.

        repeated: whether the reply also repeats other parts of the instructions. If not, a value without a sentence,
        such as a label, counts as the judge's own.
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
    return (text for text in values_within(value) if isinstance(text, str))
