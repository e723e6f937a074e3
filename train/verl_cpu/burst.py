"""Collect requests that arrive one by one, and decode them as one batch in an order independent of their arrival.

verl's agent loop sends each rollout as a separate request. It is much cheaper to decode a whole step at once. The order
is fixed, and seeds depend only on (seed, step, prompt, sample), so the rollouts are the same every time.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from train.rollouts import rollout_seed


class Sampling(NamedTuple):
    """The sampling parameters of a request. Temperature 0 is greedy."""

    temperature: float
    top_p: float
    top_k: int


class Rollout(NamedTuple):
    """A decoded request: token ids, their log-probabilities, and the sample's number in its prompt (from 0)."""

    ids: list[int]
    logprobs: list[float]
    sample: int


@dataclass
class Request:
    """A prompt to decode, with at most `limit` new tokens."""

    prompt: tuple[int, ...]
    limit: int
    sampling: Sampling
    rollout: asyncio.Future[Rollout] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


Decoded = tuple[list[int], list[float]]  # token ids and their log-probabilities
Decode = Callable[[Sequence[Request], Sequence[int]], Awaitable[list[Decoded]]]


class Bursts:
    """Collects requests until a step is complete, then decodes them together.

    expected: for each sampling the number of requests in a step. If it is unknown, or if some requests never arrive
    because their agent failed, decoding starts after `patience` seconds without a new request. decode: awaited as
    `decode(requests, seeds)` with at most `rows` requests at a time.
    """

    def __init__(
        self, decode: Decode, seed: int, rows: int, expected: Mapping[Sampling, int], patience: float = 10.0
    ) -> None:
        self.decode, self.seed, self.rows, self.expected, self.patience = decode, seed, rows, expected, patience
        self.step = 0
        self.seen: Counter[tuple[Sampling, tuple[int, ...]]] = Counter()  # samples of each prompt so far in this step
        self.waiting: list[Request] = []
        self.arrived = asyncio.Event()

    def start_step(self, step: int) -> None:
        """Start a step after new weights arrived: the samples of each prompt are numbered from 0 again."""
        self.step = step
        self.seen.clear()

    def put(self, request: Request) -> asyncio.Future[Rollout]:
        """Add a request to the next burst. The returned future gives its rollout."""
        self.waiting.append(request)
        self.arrived.set()
        return request.rollout

    async def serve(self) -> None:
        """Decode burst after burst, forever."""
        while True:
            requests = await self._complete()
            numbered = self._numbered(requests)
            for start in range(0, len(numbered), self.rows):
                await self._answer(numbered[start : start + self.rows])

    async def _complete(self) -> list[Request]:
        while True:
            for sampling, count in Counter(request.sampling for request in self.waiting).items():
                if count >= self.expected.get(sampling, count + 1):
                    return self._take(sampling)
            self.arrived.clear()
            arrival = asyncio.ensure_future(self.arrived.wait())
            done, _ = await asyncio.wait({arrival}, timeout=self.patience if self.waiting else None)
            if not done:
                arrival.cancel()
                return self._take(self.waiting[0].sampling)

    def _take(self, sampling: Sampling) -> list[Request]:
        taken = [request for request in self.waiting if request.sampling == sampling]
        self.waiting = [request for request in self.waiting if request.sampling != sampling]
        return taken

    def _numbered(self, requests: list[Request]) -> list[tuple[Request, int]]:
        """Sort requests by prompt and number the samples. Requests of the same prompt are interchangeable.

        If a step arrives in two bursts, the numbers continue, so that no two samples of a prompt have the same seed.
        """
        numbered = []
        for request in sorted(requests, key=lambda r: (len(r.prompt), r.prompt)):
            key = (request.sampling, request.prompt)
            numbered.append((request, self.seen[key]))
            self.seen[key] += 1
        return numbered

    async def _answer(self, numbered: list[tuple[Request, int]]) -> None:
        requests = [request for request, _ in numbered]
        seeds = [rollout_seed(self.seed, self.step, request.prompt, sample) for request, sample in numbered]
        try:
            decoded = await self.decode(requests, seeds)
            for (request, sample), (ids, logprobs) in zip(numbered, decoded, strict=True):
                request.rollout.set_result(Rollout(ids, logprobs, sample))
        except Exception as error:  # verl's agent loop marks the prompt as failed and shows the error
            for request in requests:
                if not request.rollout.done():
                    request.rollout.set_exception(error)


def deal(prompts: Sequence[Hashable], ranks: int) -> list[list[int]]:
    """Return the positions of each rank's requests. Prompts are dealt to the ranks in turn, with all their samples.

    Samples of a prompt must be together because they draft from each other (`rag_zeval.models.decoding`). If prompts
    are sorted by length, each rank gets about the same number of prompt tokens.
    """
    order = {prompt: at for at, prompt in enumerate(dict.fromkeys(prompts))}
    return [[at for at, prompt in enumerate(prompts) if order[prompt] % ranks == rank] for rank in range(ranks)]
