from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.verl_cpu.burst import Bursts, Request, Rollout, Sampling, rollout_seed

WARM, GREEDY = Sampling(1.0, 1.0, -1), Sampling(0.0, 1.0, -1)


class Recorder:
    """Decodes a prompt to its own tokens and the seed; remembers the batches."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[tuple[int, ...], int]]] = []

    def __call__(self, requests: Sequence[Request], seeds: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        self.batches.append([(r.prompt, seed) for r, seed in zip(requests, seeds, strict=True)])
        return [([*r.prompt, seed], [0.0]) for r, seed in zip(requests, seeds, strict=True)]


async def run(
    prompts: Sequence[tuple[int, ...]], decode: Any, expected: dict[Sampling, int], **settings: Any
) -> list[Rollout]:
    bursts = Bursts(decode, seed=5, expected=expected, **{"rows": 100, "patience": 0.05, **settings})
    serving = asyncio.create_task(bursts.serve())
    replies = [bursts.put(Request(prompt, 4, WARM)) for prompt in prompts]
    try:
        return await asyncio.wait_for(asyncio.gather(*replies), 5)
    finally:
        serving.cancel()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_arrival_order_changes_nothing(prompts: list[tuple[int, ...]], rng: random.Random) -> None:
    first, second = Recorder(), Recorder()
    rollouts = asyncio.run(run(prompts, first, {WARM: len(prompts)}))
    shuffled = rng.sample(prompts, len(prompts))
    again = asyncio.run(run(shuffled, second, {WARM: len(prompts)}))
    assert first.batches == second.batches and len(first.batches) == 1
    assert sorted(rollouts) == sorted(again)
    for prompt in set(prompts):  # samples of a prompt are numbered from 0, each with a seed of its own
        mine = [r for r, p in zip(rollouts, prompts, strict=True) if p == prompt]
        assert sorted(r.sample for r in mine) == list(range(len(mine)))
        assert len({tuple(r.ids) for r in mine}) == len(mine)


def test_a_burst_waits_for_all_its_requests() -> None:
    async def slowly() -> list[list[tuple[tuple[int, ...], int]]]:
        recorder = Recorder()
        bursts = Bursts(recorder, 0, 100, {WARM: 3}, patience=5)
        serving = asyncio.create_task(bursts.serve())
        replies = []
        for prompt in [(3,), (1,), (2,)]:
            replies.append(bursts.put(Request(prompt, 4, WARM)))
            await asyncio.sleep(0.02)
        await asyncio.gather(*replies)
        serving.cancel()
        return recorder.batches

    assert [[prompt for prompt, _ in batch] for batch in asyncio.run(slowly())] == [[(1,), (2,), (3,)]]


def test_a_burst_that_never_fills_is_closed_after_a_while() -> None:
    recorder = Recorder()
    assert len(asyncio.run(run([(1,), (2,)], recorder, {WARM: 3}))) == 2
    assert len(asyncio.run(run([(1,), (2,)], recorder, {}))) == 2  # nothing known about this sampling


def test_a_step_in_two_bursts_repeats_no_seed_and_the_next_step_counts_anew() -> None:
    async def bursts_of_two_steps() -> list[list[Rollout]]:
        bursts = Bursts(Recorder(), 0, 100, {WARM: 4}, patience=0.02)
        serving = asyncio.create_task(bursts.serve())
        found = []
        for step in (1, 1, 2):
            if step != bursts.step:
                bursts.start_step(step)
            found.append(await asyncio.gather(*(bursts.put(Request((7,), 4, WARM)) for _ in range(2))))
        serving.cancel()
        return found

    first, second, next_step = asyncio.run(bursts_of_two_steps())
    assert [r.sample for r in first + second] == [0, 1, 2, 3]
    assert len({tuple(r.ids) for r in first + second}) == 4
    assert [r.sample for r in next_step] == [0, 1]


def test_samplings_are_not_mixed_and_batches_are_bounded() -> None:
    async def both() -> list[list[tuple[tuple[int, ...], int]]]:
        recorder = Recorder()
        bursts = Bursts(recorder, 0, 2, {WARM: 3, GREEDY: 2}, patience=5)
        serving = asyncio.create_task(bursts.serve())
        mixed = [((1,), WARM), ((9,), GREEDY), ((2,), WARM), ((8,), GREEDY), ((3,), WARM)]
        await asyncio.gather(*[bursts.put(Request(prompt, 4, sampling)) for prompt, sampling in mixed])
        serving.cancel()
        return recorder.batches

    batches = [sorted(prompt for prompt, _ in batch) for batch in asyncio.run(both())]
    assert sorted(batches) == [[(1,), (2,)], [(3,)], [(8,), (9,)]]


def test_a_failure_reaches_every_request_and_the_server_goes_on() -> None:
    calls = []

    def fails_once(requests: Sequence[Request], seeds: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        calls.append(len(requests))
        if len(calls) == 1:
            raise RuntimeError("out of memory")
        return [([1], [0.0]) for _ in requests]

    async def twice() -> None:
        bursts = Bursts(fails_once, 0, 100, {WARM: 2})
        serving = asyncio.create_task(bursts.serve())
        failed = await asyncio.gather(*[bursts.put(Request((at,), 4, WARM)) for at in range(2)], return_exceptions=True)
        assert [str(error) for error in failed] == ["out of memory"] * 2
        assert len(await asyncio.gather(*[bursts.put(Request((at,), 4, WARM)) for at in range(2)])) == 2
        serving.cancel()

    asyncio.run(twice())


@pytest.mark.parametrize("change", [{"seed": 1}, {"step": 1}, {"prompt": (1, 3)}, {"sample": 1}])
def test_seeds_depend_on_all_four(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"seed": 0, "step": 0, "prompt": (1, 2), "sample": 0}
    assert rollout_seed(**base) == rollout_seed(**base) != rollout_seed(**{**base, **change})
    assert 0 <= rollout_seed(**base) < 2**56
