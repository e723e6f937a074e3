import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.verl_cpu.burst import Bursts, Request, Sampling, deal

WARM, GREEDY = Sampling(1.0, 1.0, -1), Sampling(0.0, 1.0, -1)
Prompt = tuple[int, ...]


class Recorder:
    """Decodes a prompt to its own tokens and the seed; remembers the prompts and seeds of each batch."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[Prompt, int]]] = []

    async def __call__(self, requests: Sequence[Request], seeds: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        self.batches.append([(r.prompt, seed) for r, seed in zip(requests, seeds, strict=True)])
        return [([*r.prompt, seed], [0.0]) for r, seed in zip(requests, seeds, strict=True)]

    def prompts(self) -> list[list[Prompt]]:
        return [[prompt for prompt, _ in batch] for batch in self.batches]


def serve(
    decode: Any,
    expected: dict[Sampling, int],
    *waves: Sequence[tuple[Prompt, Sampling]],
    steps: Sequence[int] = (0, 0, 0),
    rows: int = 100,
    patience: float = 5,
) -> list[list[Any]]:
    """The rollouts, or errors, of each wave of requests; a wave is sent, in its step, when the last one is answered."""

    async def send_waves() -> list[list[Any]]:
        bursts = Bursts(decode, 5, rows, expected, patience)
        serving = asyncio.create_task(bursts.serve())
        answered = []
        for wave, step in zip(waves, steps, strict=False):
            if step != bursts.step:
                bursts.start_step(step)
            replies = []
            for prompt, sampling in wave:
                replies.append(bursts.put(Request(prompt, 4, sampling)))
                await asyncio.sleep(0.01)  # they arrive one by one
            answered.append(await asyncio.wait_for(asyncio.gather(*replies, return_exceptions=True), 5))
        serving.cancel()
        return answered

    return asyncio.run(send_waves())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_a_burst_waits_for_all_its_requests_and_their_order_changes_nothing(
    prompts: list[Prompt], rng: random.Random
) -> None:
    first, second = Recorder(), Recorder()
    [rollouts] = serve(first, {WARM: len(prompts)}, [(prompt, WARM) for prompt in prompts])
    shuffled = rng.sample(prompts, len(prompts))
    [again] = serve(second, {WARM: len(prompts)}, [(prompt, WARM) for prompt in shuffled])
    assert first.batches == second.batches and first.prompts() == [sorted(prompts)]
    assert sorted(rollouts) == sorted(again)
    for prompt in set(prompts):  # samples of a prompt are numbered from 0, each with a seed of its own
        mine = [r for r, p in zip(rollouts, prompts, strict=True) if p == prompt]
        assert sorted(r.sample for r in mine) == list(range(len(mine)))
        assert len({tuple(r.ids) for r in mine}) == len(mine)


@pytest.mark.parametrize("expected", [{WARM: 3}, {}], ids=["one never comes", "nothing is known of this sampling"])
def test_a_burst_that_never_fills_is_closed_after_a_while(expected: dict[Sampling, int]) -> None:
    recorder = Recorder()
    serve(recorder, expected, [((1,), WARM), ((2,), WARM)], patience=0.2)
    assert recorder.prompts() == [[(1,), (2,)]]


def test_a_step_in_two_bursts_repeats_no_seed_and_the_next_step_counts_anew() -> None:
    wave = [((7,), WARM)] * 2
    first, second, next_step = serve(Recorder(), {WARM: 2}, wave, wave, wave, steps=(1, 1, 2))
    assert [r.sample for r in first + second] == [0, 1, 2, 3]
    assert len({tuple(r.ids) for r in first + second + next_step}) == 6
    assert [r.sample for r in next_step] == [0, 1]


def test_samplings_are_not_mixed_and_batches_are_bounded() -> None:
    recorder = Recorder()
    mixed = [((1,), WARM), ((9,), GREEDY), ((2,), WARM), ((8,), GREEDY), ((3,), WARM)]
    serve(recorder, {WARM: 3, GREEDY: 2}, mixed, rows=2)
    assert sorted(recorder.prompts()) == [[(1,), (2,)], [(3,)], [(8,), (9,)]]


def test_a_failure_reaches_every_request_and_the_server_goes_on() -> None:
    failures = [RuntimeError("out of memory")]

    async def fails_once(requests: Sequence[Request], seeds: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        if failures:
            raise failures.pop()
        return [([1], [0.0]) for _ in requests]

    wave = [((at,), WARM) for at in range(2)]
    failed, served = serve(fails_once, {WARM: 2}, wave, wave)
    assert [str(error) for error in failed] == ["out of memory"] * 2
    assert [rollout.ids for rollout in served] == [[1], [1]]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 4))
def test_each_request_is_dealt_to_one_rank_with_all_samples_of_its_prompt(prompts: list[int], ranks: int) -> None:
    shares = deal(prompts, ranks)
    assert len(shares) == ranks and sorted(at for share in shares for at in share) == list(range(len(prompts)))
    by_rank = [{prompts[at] for at in share} for share in shares]
    assert sum(map(len, by_rank)) == len(set(prompts))
    assert max(map(len, by_rank)) - min(map(len, by_rank)) <= 1
