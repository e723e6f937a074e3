"""Rollouts have one order and seeds of their own, whatever arrives first."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.combined import KEYS, WATCHED, failed
from train.rollouts import rollout_seed
from train.rollouts.ordered_buffer import reward_metrics, row_order
from train.verl_cpu.replay import partitions_by_prompt


@settings(deadline=None)  # the first case imports verl
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, min_size=1),
    st.randoms(use_true_random=False),
)
def test_order_follows_rows_and_samples_only(pairs: list[tuple[int, int]], rng: random.Random) -> None:
    arrived = rng.sample(pairs, len(pairs))
    order = row_order([row for row, _ in arrived], [sample for _, sample in arrived])
    assert [arrived[at] for at in order] == sorted(pairs)


def test_parts_of_a_trajectory_are_averaged_over_trajectories() -> None:
    good = {**dict.fromkeys(KEYS, 1.0), "claims": 4.0, "evidence": 0.5, "errors": 0.0}
    bad = {**failed(), "errors": 0.0}
    metrics = reward_metrics([good, bad, bad, bad])
    assert metrics["reward_extra/format/mean"] == 0.25
    assert metrics["reward_extra/score/mean"] == (1.0 - 3 * 0.5) / 4
    assert metrics["reward_extra/claims/mean"] == 4.0 and metrics["reward_extra/evidence/mean"] == 0.5
    nothing = reward_metrics([bad])
    assert not {f"reward_extra/{name}/mean" for name in WATCHED} & nothing.keys()  # missing, not 0
    assert nothing["reward_extra/accuracy/mean"] == 0.0


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.data())
def test_ranks_get_whole_prompts_and_about_as_much_work(
    ranks: int, each: int, rollouts: int, data: st.DataObject
) -> None:
    prompts = ranks * each
    work = data.draw(st.lists(st.integers(1, 99), min_size=prompts * rollouts, max_size=prompts * rollouts))
    parts = partitions_by_prompt(work, ranks, True, rollouts=rollouts)
    assert sorted(row for part in parts for row in part) == list(range(len(work)))
    for part in parts:
        assert len(part) == each * rollouts
        assert all(row == part[at - at % rollouts] + at % rollouts for at, row in enumerate(part))
        assert all(part[at] % rollouts == 0 for at in range(0, len(part), rollouts))
    loads = [sum(work[row] for row in part) for part in parts]
    assert max(loads) - min(loads) <= rollouts * 99


def test_rows_of_incomplete_prompts_are_dealt_as_verl_deals_them() -> None:
    assert sorted(map(len, partitions_by_prompt([5, 1, 1, 1, 1, 1], 2, True, rollouts=2))) == [3, 3]


IDS: dict[str, Any] = {"seed": 0, "step": 0, "prompt": (1, 2), "sample": 0}


@pytest.mark.parametrize("change", [{"seed": 1}, {"step": 1}, {"prompt": (1, 3)}, {"sample": 1}])
def test_seeds_depend_on_all_four(change: dict[str, Any]) -> None:
    assert rollout_seed(**IDS) == rollout_seed(**IDS) != rollout_seed(**{**IDS, **change})
    assert 0 <= rollout_seed(**IDS) < 2**56


def test_a_prompt_may_be_messages() -> None:
    asked, other = ([{"role": "user", "content": text}] for text in ("who?", "where?"))
    assert rollout_seed(0, 0, asked, 0) == rollout_seed(0, 0, list(asked), 0) != rollout_seed(0, 0, other, 0)
