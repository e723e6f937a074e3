"""The metrics of a training step that both trainers compute: the parts of the reward, and the number of candidates."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rewards.combined import OF_PAIRS, WATCHED


def reward_metrics(parts: Sequence[Mapping[str, float]], candidates: Sequence[int]) -> dict[str, float]:
    """Return `reward_extra/<name>/mean`, the mean of each part of the reward over the rollouts of a step.

    And `curriculum/candidates`: the most candidates of a prompt. That is K of the stage, whatever prompts with a single
    answer the step has. In the step in which K rises it is the new K.

    Metrics of a trajectory (rewards.combined.WATCHED) are averaged over the rollouts with the right format. Metrics of
    pairs (OF_PAIRS) are averaged over the rollouts of prompts with two or more candidates. A metric without any such
    rollout is missing. candidates: number of candidates in each rollout's prompt.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for part, k in zip(parts, candidates, strict=True):
        for name, value in part.items():
            if (name not in WATCHED or part["format"]) and (name not in OF_PAIRS or k > 1):
                values[name].append(float(value))
    means = {f"reward_extra/{name}/mean": sum(v) / len(v) for name, v in values.items()}
    return {**means, "curriculum/candidates": float(max(candidates))}
