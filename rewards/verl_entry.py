"""The reward function that verl calls.

verl's config names it: `reward.custom_reward_function.{path: pkg://rewards.verl_entry, name: compute_score}`.
"""

import itertools
import json
import sys
import threading
import traceback
from functools import lru_cache
from typing import Any

from rag_zeval.judge.evidence import ReferenceIndex
from rewards.combined import combined_reward, failed
from rewards.tokens import PolicyTokens

SHOWN_ERRORS = 3
_seen = itertools.count(1)  # numbers the errors
_lock = threading.Lock()  # verl calls from a thread pool, and a tokenizer is not safe for two threads at once


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,
    *,
    tokenizer: str,
    accuracy: str = "all-pairs",
    **kwargs: Any,
) -> dict[str, float]:
    """Return the reward of one rollout and its parts. The keys are always `rewards.combined.KEYS` and `errors`.

    ground_truth: the JSON object `{"alphas", "reference", "variant"}` of the training row. It also has `"answers"` if
    the variant repeats them. tokenizer: the policy's folder. accuracy: the rule of r_a. Both come from `reward_kwargs`.

    verl continues when a reward raises, and takes its metric names from the first result. So nothing is raised here: a
    rollout that cannot be scored gets the format penalty and `errors` 1. The first few errors are printed on stderr.
    """
    try:
        with _lock:
            truth = json.loads(ground_truth)
            index, tokens = _reference_index(tokenizer, truth["reference"]), _policy_tokens(tokenizer)
            parts = combined_reward(
                solution_str,
                truth["alphas"],
                index,
                tokens,
                variant=truth["variant"],
                answers=truth.get("answers"),
                accuracy_rule=accuracy,
            )
        return {**parts, "errors": 0.0}
    except Exception:
        _show_error(extra_info)
        return {**failed(), "errors": 1.0}


@lru_cache(maxsize=2)
def _policy_tokens(tokenizer: str) -> PolicyTokens:
    from transformers import AutoTokenizer

    return PolicyTokens(AutoTokenizer.from_pretrained(tokenizer))


@lru_cache(maxsize=64)  # the rollouts of one prompt are scored close to each other
def _reference_index(tokenizer: str, reference: str) -> ReferenceIndex:
    return ReferenceIndex(_policy_tokens(tokenizer)(reference))


def _show_error(extra_info: Any) -> None:
    number = next(_seen)
    if number <= SHOWN_ERRORS:
        row = extra_info.get("id") if isinstance(extra_info, dict) else None
        print(f"reward error {number}, row {row}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
