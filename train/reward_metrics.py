"""The parts of the reward as metrics of a training step."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rewards.combined import OF_PAIRS, WATCHED


def reward_metrics(parts: Sequence[Mapping[str, float]], candidates: Sequence[int]) -> dict[str, float]:
    """`reward_extra/<name>/mean` over the rollouts of a step.

    What describes a trajectory (rewards.combined.WATCHED) is averaged over the rollouts that are one; if none is, it
    is missing from this step. What describes pairs (OF_PAIRS) is averaged over the prompts of two candidates or more.
    candidates: of each rollout's prompt.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for part, k in zip(parts, candidates, strict=True):
        for name, value in part.items():
            if (name not in WATCHED or part["format"]) and (name not in OF_PAIRS or k > 1):
                values[name].append(float(value))
    return {f"reward_extra/{name}/mean": sum(v) / len(v) for name, v in values.items()}
