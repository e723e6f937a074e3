from __future__ import annotations

from typing import Any

import pytest

from train.rollouts import rollout_seed

IDS: dict[str, Any] = {"seed": 0, "step": 0, "prompt": (1, 2), "sample": 0}


@pytest.mark.parametrize("change", [{"seed": 1}, {"step": 1}, {"prompt": (1, 3)}, {"sample": 1}])
def test_seeds_depend_on_all_four(change: dict[str, Any]) -> None:
    assert rollout_seed(**IDS) == rollout_seed(**IDS) != rollout_seed(**{**IDS, **change})
    assert 0 <= rollout_seed(**IDS) < 2**56


def test_a_prompt_may_be_messages() -> None:
    asked, other = ([{"role": "user", "content": text}] for text in ("who?", "where?"))
    assert rollout_seed(0, 0, asked, 0) == rollout_seed(0, 0, list(asked), 0) != rollout_seed(0, 0, other, 0)
