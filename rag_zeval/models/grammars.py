"""Keeps the replies of a model that runs on this machine within a JSON schema: which tokens may come next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_zeval.errors import InputError, needed
from rag_zeval.text import one_line

if TYPE_CHECKING:
    from llguidance import LLMatcher


class Grammars:
    """Makes the grammars of a model's replies. To read the vocabulary takes about a second."""

    def __init__(self, tokenizer: Any, vocabulary: int, stops: Collection[int]):
        """Raise InputError for a tokenizer whose tokens llguidance cannot read, and without llguidance.

        vocabulary: number of logits. stops: the tokens that end a reply.
        """
        with needed("llguidance", "replies in the JSON format (--no-structured does without)"):
            from llguidance import hf
        try:
            self._tokenizer = hf.from_tokenizer(tokenizer, vocabulary, list(stops))
        except ValueError as error:
            told = "replies in the JSON format: this tokenizer cannot be used (--no-structured does without)"
            raise InputError(f"{told}: {one_line(str(error))}") from error

    def of(self, schema: Mapping[str, Any]) -> Grammar:
        """Return the grammar of a new reply that must follow a JSON schema."""
        from llguidance import LLMatcher

        grammar = LLMatcher.grammar_from_json_schema(
            dict(schema),
            # as json.dumps writes it: if any white space were allowed, a weak model might write nothing else
            defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
        )
        return Grammar(LLMatcher(self._tokenizer, grammar))


class Grammar:
    """One reply so far, and which tokens may come next. A stop token may come only after a complete reply."""

    def __init__(self, matcher: LLMatcher):
        self._matcher = matcher

    def fitting(self, tokens: Sequence[int]) -> int:
        """Return how many of these tokens may come next, one after the other."""
        return self._matcher.validate_tokens(list(tokens))

    def masks(self, tokens: Sequence[int]) -> list[bytes]:
        """Return what may come next, and what after each of these tokens, which must fit: one bit for each token.

        The lowest bit of a byte comes first. After a stop token nothing comes.
        """
        masks, added = [self._matcher.compute_bitmask()], 0
        for token in tokens:
            if self._matcher.is_stopped():
                break
            self._matcher.consume_token(token)
            masks.append(self._matcher.compute_bitmask())
            added += 1
        self._matcher.rollback(added)
        return masks

    def extend(self, tokens: Sequence[int]) -> None:
        """Add tokens to the reply. Raises RuntimeError if they do not fit."""
        for token in tokens:
            # a reply that cannot go on has stopped, and only a stop token follows
            if not self._matcher.is_stopped() and not self._matcher.consume_token(token):
                raise RuntimeError(f"a reply left its JSON schema: {one_line(self._matcher.get_error())}")
