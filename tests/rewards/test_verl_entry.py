from __future__ import annotations

import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.stages import world
from rewards import verl_entry
from rewards.combined import KEYS, combined_reward, failed
from rewards.tokens import PolicyTokens
from rewards.verl_entry import compute_score

TOKENIZER = str(Path(__file__).parents[2] / "checkpoints" / "nano-base")  # a token for each word of its world
REFERENCE = world.questions("train", 1, seed=0)[0].passage
ALPHAS = [-1.0, 0.0, -0.5]
TRUTH = json.dumps({"alphas": ALPHAS, "reference": REFERENCE, "variant": "compact"})


def trajectory(supports: list[tuple[bool, ...]], quote: str) -> str:
    def claim(supported: bool) -> dict[str, Any]:
        evidence = [quote] if supported else []
        return {"claim": "c", "grounding_evidence": evidence, "analysis": "", "is_supported": supported}

    return json.dumps([{"id": i, "atomic_claims": [*map(claim, of)]} for i, of in zip("ABC", supports, strict=True)])


def score(text: str, truth: str = TRUTH, **kwargs: Any) -> dict[str, float]:
    return compute_score("rag_zeval", text, truth, {"id": "row-1"}, **{"tokenizer": TOKENIZER, **kwargs})


def test_it_is_the_combined_reward_on_the_policys_tokens() -> None:
    from transformers import AutoTokenizer

    text = trajectory([(False, False), (True, True), (True, False)], " ".join(REFERENCE.split()[:10]) + " pony pony")
    tokens = PolicyTokens(AutoTokenizer.from_pretrained(TOKENIZER))
    expected = combined_reward(text, ALPHAS, ReferenceIndex(tokens(REFERENCE)), tokens, variant="compact")
    assert score(text) == {**expected, "errors": 0.0}
    assert expected["score"] == 1 + 0.5 * 10 / 12


def test_best_only_asks_less() -> None:
    text = trajectory([(True, False), (True, True), (True, False)], "pony")  # the two others tie
    assert score(text)["score"] == 0.0
    assert score(text, accuracy="best-only")["score"] == 1.0


BROKEN = ["[]", "[[", "[NaN, NaN]", '[{"id": "A"}]', "null", "[" * 100_000]
GOOD = [trajectory([(False,), verdicts, (True, False)], REFERENCE) for verdicts in ((True,), (False,))]


@given(text=st.one_of(st.text(), st.sampled_from(BROKEN + GOOD)))
def test_keys_and_numbers_stay_the_same_whatever_comes(text: str) -> None:
    parts = score(text)
    assert list(parts) == [*KEYS, "errors"] == [*failed(), "errors"]
    assert all(isinstance(value, float) and math.isfinite(value) for value in parts.values())
    assert parts["errors"] == 0.0
    assert 0 <= parts["score"] <= 1.5 if text in GOOD else parts["score"] == -0.5


@pytest.mark.parametrize("truth", ["", "{}", '{"alphas": [0, -1]}', TRUTH.replace("compact", "unheard-of")])
def test_what_cannot_be_scored_is_counted_and_shown(
    truth: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewards.verl_entry._seen", itertools.count(1))
    results = [score("[]", truth) for _ in range(5)]
    assert all(list(parts) == [*KEYS, "errors"] and parts["score"] == -0.5 for parts in results)
    assert [parts["errors"] for parts in results] == [1.0] * 5
    shown = capsys.readouterr().err
    assert shown.count("reward error") == 3 and "row row-1" in shown
    assert score("[]", tokenizer=str(Path(__file__).parent))["errors"] == 1.0


def test_the_index_of_a_reference_is_built_once() -> None:
    verl_entry._reference_index.cache_clear()
    text = trajectory([(True,), (True,), (True,)], REFERENCE)
    for _ in range(8):
        assert score(text)["evidence"] == 1.0
    info = verl_entry._reference_index.cache_info()
    assert (info.misses, info.hits) == (1, 7)


def test_it_may_be_called_from_a_thread_pool() -> None:
    text = trajectory([(False,), (True,), (True,)], REFERENCE)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: score(text), range(64)))
    assert all(p == parts[0] for p in parts) and parts[0]["errors"] == 0.0
