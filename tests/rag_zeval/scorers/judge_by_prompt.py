"""A judge, an embedding model and a claim checker in this process, and an example, for the tests of scorers."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.literal_judge import read_prompt, word_vector
from rag_zeval.models.batched import BatchedModel
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import Embedding, packed
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.nli import Pair
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored


class JudgeByPrompt(BatchedModel):
    """Replies by prompt: a text, a Reply, anything else as JSON, or what a function makes of the inputs.

    rounds: of each batch, the prompts and inputs that were asked; asked, requests: those of all batches.
    spoil: what becomes of the reply to the question of that number among those.
    """

    name = identity = "judge"
    card: dict[str, str] = {}
    max_context = None
    batched = False

    def __init__(self, replies: Mapping[str, Any], spoil: Mapping[int, Callable[[str], str]] | None = None) -> None:
        super().__init__()
        self.replies, self.spoil = replies, spoil or {}
        self.rounds: list[list[tuple[str, dict[str, Any]]]] = []
        self.requests: list[Request] = []

    @property
    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        return [question for batch in self.rounds for question in batch]

    @property
    def temperatures(self) -> set[float]:
        return {request.sampling.temperature for request in self.requests}

    def count_tokens(self, messages: Any) -> None:
        return None

    def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        number = len(self.requests)
        self.requests += requests
        self.rounds.append([read_prompt(request.messages[0]["content"]) for request in requests])
        for index, (prompt, inputs) in reversed([*enumerate(self.rounds[-1])]):  # replies come in any order
            said = self.replies[prompt]
            said = said(inputs) if callable(said) else said
            if not isinstance(said, Reply):
                text = said if isinstance(said, str) else json.dumps(said)
                said = Reply(self.spoil.get(number + index, str)(text), "ok", 3, 2, calls=1, seconds=0.5)
            yield index, said

    def score(
        self,
        measure: str,
        example: Example,
        vector_of: Callable[[str], Sequence[float] | None] = word_vector,
        cache: ReplyCache | None = None,
    ) -> Scored:
        """One example scored by a measure of the registry."""
        backend = CachedBackend(self, cache) if cache else self
        (scored,) = AskingScorer(MEASURES[measure], backend, Sampling(), Vectors(vector_of)).score([example])
        return scored


class Vectors:
    """An embedding model: `vector_of(text)`, and a failure where that is None."""

    name = identity = "vectors"
    at_once = 1

    def __init__(self, vector_of: Callable[[str], Sequence[float] | None]):
        self.vector_of = vector_of

    async def embed(self, text: str) -> Embedding:
        vector = self.vector_of(text)
        status = "failed: HTTP 400" if vector is None else "ok"
        return Embedding(None if vector is None else packed(vector), status, 4, calls=1, seconds=1)


class CheckerStub:
    """A claim checker that reads `window` words, and says what `says` gives. It notes what it was asked."""

    identity = "checker"

    def __init__(self, says: Callable[[str, str], float], window: int = 10**6) -> None:
        self.says, self.window = says, window
        self.asked: list[Pair] = []

    def fits(self, pair: Pair) -> bool:
        return len(" ".join(pair).split()) <= self.window

    def score(self, pairs: Sequence[Pair]) -> list[float | None]:
        self.asked += pairs
        return [self.says(*pair) if self.fits(pair) else None for pair in pairs]


def facts(*numbers: int) -> str:
    """A text of invented facts: the literal judge finds each in another text or not, by its number."""
    return "".join(f"Fact {number} holds. " for number in numbers)


def example_of(*answers: str, id_: str = "x") -> Example:
    """An example with all that a scorer may need; its reference is its ground truth, facts 0 to 3."""
    chunks = (facts(0, 5, 6), facts(9), facts(1, 7))
    return Example(id_, f"Which facts {id_}?", facts(0, 1, 2, 3), answers, facts(0, 1, 2, 3), chunks)
