"""Prepare questions for context-aware decoding: the token ids of a prompt with the passage and of one without.

A prompt is "two-shot" (real text, in `prompts/*.txt`) or "nano" (the prompt that the nano base was trained with). This
module also decides which questions are refused because they are too long, and which are answered together.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.models.folder import loading, window_of
from rag_zeval.models.language_model import chat_ids
from rag_zeval.scorers.sentences import sentences_of
from rag_zeval.stages.world import answer_prompt
from synthesize.settings import Settings
from synthesize.sources import SourceQuestion

TEMPLATES = {file.stem: file.read_text("utf-8").strip() for file in (Path(__file__).parent / "prompts").glob("*.txt")}


@dataclass(frozen=True)
class Job:
    """A question and the token ids of its two prompts. `refusal` says why it cannot be answered; None: it can."""

    question: SourceQuestion
    with_passage: list[int]
    without_passage: list[int]
    refusal: str | None = None

    @property
    def width(self) -> int:
        """Number of tokens of both prompts together."""
        return len(self.with_passage) + len(self.without_passage)

    def row(self, status: str, responses: Sequence[Row] = ()) -> Row:
        """Return this question's row of responses.jsonl."""
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


Batch = list[Job]  # the unit of work: a kill loses at most the batches in progress


class JobReader:
    """Turns questions into jobs, with the tokenizer and the context window of the model's folder.

    Both are loaded on first use. That raises InputError if transformers cannot load them, or if settings ask for a chat
    template and the tokenizer has none.
    """

    def __init__(self, settings: Settings):
        self.settings = settings

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with loading(self.settings.model) as path:
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if self.settings.chat_template and not tokenizer.chat_template:
            raise InputError(f"{self.settings.model}: the tokenizer has no chat template; set chat_template=false")
        return tokenizer

    @cached_property
    def window(self) -> int | None:
        from transformers import AutoConfig

        with loading(self.settings.model) as path:
            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        return window_of(config, self.settings.model)

    def read(self, question: SourceQuestion) -> Job:
        """Return the question's job.

        It is refused if the passage has more than `max_passage_tokens`, or if the prompt and an answer of
        `max_new_tokens` do not fit into the model's window.
        """
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
        """Return a response cut after `max_sentences` sentences, or unchanged if it has no more than that.

        Decoding is greedy, so generation that stopped there would have given the same words.
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


def batches(jobs: Sequence[Job], settings: Settings, batch_tokens: int) -> list[Batch]:
    """Group the jobs that are not refused into batches of similar width, narrowest first. Every run gets the same ones.

    A batch has at most `batch_size` jobs and `batch_tokens` cached tokens. Each job counts as wide as the batch's
    widest, with answers of full length. A job that is too wide for that gets a batch of its own.
    """
    growth = 2 * len(settings.alphas) * settings.max_new_tokens  # tokens of a job's answers in both streams
    groups: list[Batch] = []
    for job in sorted((job for job in jobs if not job.refusal), key=lambda job: job.width):
        size = len(groups[-1]) if groups else settings.batch_size
        if size < settings.batch_size and (size + 1) * (job.width + growth) <= batch_tokens:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def qa_prompt(kind: str, question: str, passage: str | None) -> str:
    """Return the prompt of a kind ("nano" or "two-shot"). If `passage` is None, the prompt has no passage."""
    if kind == "nano":
        return answer_prompt(question, passage)
    values = {"question": question, "passage": passage or ""}
    template = TEMPLATES["without_passage" if passage is None else "with_passage"]
    # One pass, so that a placeholder written in a passage is not filled.
    return re.sub(r"\{(question|passage)\}", lambda field: values[field[1]], template)


def prompt_hash(kind: str) -> str:
    """Return the first 16 hex digits of the sha256 of both prompts, with placeholders unfilled."""
    both = qa_prompt(kind, "{question}", "{passage}") + "\0" + qa_prompt(kind, "{question}", None)
    return hashlib.sha256(both.encode()).hexdigest()[:16]


def prompt_ids(tokenizer: Any, prompt: str, chat_template: bool) -> list[int]:
    """Return the token ids of a prompt: as a user message in the tokenizer's chat template, or as plain text.

    A space is put into each control token that a passage spells out. It stays text then, and cannot end the message.
    """
    if controls := _controls(tokenizer):
        start = f"(?={'|'.join(map(re.escape, sorted(controls)))})(.)"  # look-ahead: finds overlapping ones too
        prompt = re.sub(start, r"\1 ", prompt)
    if chat_template:
        return chat_ids(tokenizer, [{"role": "user", "content": prompt}])
    ids: list[int] = tokenizer(prompt).input_ids
    return ids


def _controls(tokenizer: Any) -> set[str]:
    """Return the strings that may be control tokens for this model.

    These are the tokens added to its vocabulary, not all of which are marked special (Qwen's `<tool_call>`), and the
    marks that its chat template writes as plain text (Llama 2's `[INST]`). Whitespace and single characters are left
    out, though some vocabularies add runs of whitespace.
    """
    marks = re.findall(r"<+[^\s<>'\"{}]+>+|\[/?[A-Z_]+\]", str(tokenizer.chat_template or ""))
    tokens = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), *marks}
    return {token for token in tokens if len(token.strip()) > 1}
