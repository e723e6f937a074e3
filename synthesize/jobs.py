"""Questions as token ids of two prompts, with the passage and without: the two streams of context-aware decoding.

A prompt is "two-shot" (real text, in `prompts/*.txt`) or "nano", which the nano base was taught with. This module also
decides which questions the model can take, and which are answered together.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.models.language_model import chat_ids
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.stages.world import answer_prompt
from rag_zeval.text import one_line
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion

TEMPLATES = {file.stem: file.read_text("utf-8").strip() for file in (Path(__file__).parent / "prompts").glob("*.txt")}


@dataclass(frozen=True)
class Job:
    """A question as token ids of its two prompts; `refusal`: why it cannot be answered, None if it can."""

    question: SourceQuestion
    with_passage: list[int]
    without_passage: list[int]
    refusal: str | None = None

    @property
    def width(self) -> int:
        """Tokens of both prompts."""
        return len(self.with_passage) + len(self.without_passage)

    def row(self, status: str, responses: Sequence[Row] = ()) -> Row:
        """The line of responses.jsonl that this question gets."""
        question = self.question
        gold = {"gold_answers": list(question.gold_answers)} if question.gold_answers else {}
        return {
            "id": question.id,
            "status": status,
            "question": question.question,
            "passage": question.passage,
            **gold,
            "responses": list(responses),
        }


Batch = list[Job]  # the unit of work, and of what a kill can lose


class JobReader:
    """Makes jobs of questions, with the model folder's tokenizer and window, loaded for the first one.

    Raises InputError then, when transformers cannot load them, or the tokenizer lacks the chat template asked for.
    """

    def __init__(self, settings: Settings):
        self.settings = settings

    @cached_property
    def tokenizer(self) -> Any:
        with model_path(self.settings) as path:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if self.settings.chat_template and not tokenizer.chat_template:
            raise InputError(f"{self.settings.model}: the tokenizer has no chat template; set chat_template=false")
        return tokenizer

    @cached_property
    def window(self) -> int | None:
        with model_path(self.settings) as path:
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        return getattr(config, "max_position_embeddings", None)

    def read(self, question: SourceQuestion) -> Job:
        """The question's prompts; refused when they are too long for the model, or for `max_passage_tokens`."""
        with_passage, without_passage = (
            prompt_ids(
                self.tokenizer,
                qa_prompt(self.settings.prompt, question.question, passage),
                self.settings.chat_template,
            )
            for passage in (question.passage, None)
        )
        return Job(question, with_passage, without_passage, self._refusal(question.passage, len(with_passage)))

    def shortened(self, response: Row) -> Row:
        """A response up to the end of its last sentence that counts (`max_sentences`).

        Decoding is greedy, so an answer that stopped there would have had the same words.
        """
        sentences = [sentence for sentence in sentences_of(response["text"]) if re.search(r"\w", sentence)]
        if self.settings.max_sentences is None or len(sentences) <= self.settings.max_sentences:
            return response
        text = " ".join(sentences[: self.settings.max_sentences])
        n_tokens = len(self.tokenizer(text, add_special_tokens=False).input_ids)
        return {**response, "text": text, "n_tokens": n_tokens, "finished": True}

    def _refusal(self, passage: str, prompt_tokens: int) -> str | None:
        limit = self.settings.max_passage_tokens
        passage_tokens = len(self.tokenizer(passage, add_special_tokens=False, verbose=False).input_ids)
        if limit is not None and passage_tokens > limit:
            return f"passage has {passage_tokens} tokens, max_passage_tokens is {limit}"
        needed = prompt_tokens + self.settings.max_new_tokens
        if self.window is not None and needed > self.window:
            return f"prompt and answer need {needed} tokens, the model's window is {self.window}"
        return None


@contextmanager
def model_path(settings: Settings) -> Iterator[str]:
    """The model's folder as a plain path, so that nothing is ever looked up on a hub; what fails is an InputError."""
    from safetensors import SafetensorError

    try:
        yield str(Path(settings.model).resolve())
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"{settings.model}: transformers cannot load it: {one_line(str(error) or type(error).__name__)}"
        ) from error


def batches(jobs: Sequence[Job], settings: Settings, batch_tokens: int) -> list[Batch]:
    """The jobs that can be answered in groups of like width, narrowest first: the same in every run.

    A batch holds at most `batch_size` jobs and `batch_tokens` cached tokens, as if each job were as wide as its widest
    and all its answers grew to their end; a job too wide for that goes alone.
    """
    growth = 2 * len(settings.alphas) * settings.max_new_tokens  # tokens of a job's answers, in both streams
    groups: list[Batch] = []
    for job in sorted((job for job in jobs if not job.refusal), key=lambda job: job.width):
        size = len(groups[-1]) if groups else settings.batch_size
        if size < settings.batch_size and (size + 1) * (job.width + growth) <= batch_tokens:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def qa_prompt(kind: str, question: str, passage: str | None) -> str:
    """The prompt of a kind ("nano" or "two-shot"); without the passage where `passage` is None."""
    if kind == "nano":
        return answer_prompt(question, passage)
    values = {"question": question, "passage": passage or ""}
    template = TEMPLATES["without_passage" if passage is None else "with_passage"]
    # one pass, so that a passage which spells a place holder is not filled again
    return re.sub(r"\{(question|passage)\}", lambda field: values[field[1]], template)


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
