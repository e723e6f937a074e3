"""Check whether rollouts come from the weights that are trained, by verl's metrics.

verl recomputes the probability of each rollout token with the weights that it trains, and logs how the two differ. In
bf16 the largest difference tells nothing, because single tokens differ much in healthy runs too. The mean difference
and the correlation tell it.
"""

from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple

from omegaconf import OmegaConf

MEAN = "training/rollout_probs_diff_mean"  # mean of |p in training - p in the rollout| over the tokens of a step
CORRELATION = "training/rollout_actor_probs_pearson_corr"


class Limits(NamedTuple):
    """The largest mean difference and the smallest correlation without a warning."""

    mean: float
    correlation: float


# Limits by precision, between a healthy run and one whose rollouts keep using the first weights.
# - Healthy (`make rehearse`, paper profile): mean 5.3e-7 in fp32; mean 4.1e-4 and correlation 0.9987 in bf16.
# - Faulty (`pytest -m slow -s tests/experiments/first_hour/test_faults.py`): mean 1.7e-3 in fp32; mean 2.0e-3 and
#   correlation 0.9657 in bf16.
# In bf16 the correlation separates the two. The mean grows with a model's uncertainty, and the tiny model of these
# figures is certain of most tokens. That is also why one of its healthy steps may have a low correlation (0.9877).
LIMITS = {"fp32": Limits(1e-4, 0.9999), "bf16": Limits(0.02, 0.99)}


def precision(verl: Any) -> str:
    """Return `fp32` if rollout and training both compute in fp32, else `bf16`. verl: verl's whole config."""
    keys = ("rollout.dtype", "actor.fsdp_config.mixed_precision.param_dtype")
    dtypes = [OmegaConf.select(verl, f"actor_rollout_ref.{key}") for key in keys]
    return "fp32" if all(dtype in ("fp32", "float32") for dtype in dtypes) else "bf16"


def within(data: Mapping[str, float], limits: Limits) -> bool:
    """Whether a step's metrics are within the limits. A missing metric is within them; NaN is not."""
    mean, correlation = data.get(MEAN, 0.0), data.get(CORRELATION, 1.0)
    return mean <= limits.mean and correlation >= limits.correlation


class Agreement:
    """Checks the steps of a run, and gives one warning."""

    def __init__(self, verl: Any):
        self.precision, self.warned = precision(verl), False
        self.outside = 0  # steps in a row outside the limits

    def step(self, step: int, data: Mapping[str, float]) -> str | None:
        """Return a warning at the first two steps in a row outside the limits, else None."""
        limits = LIMITS[self.precision]
        self.outside = 0 if within(data, limits) else self.outside + 1
        if self.warned or self.outside < 2:
            return None
        self.warned = True
        mean, correlation = (data.get(name, nan) for name in (MEAN, CORRELATION))
        return (
            f"warning: in step {step}, as in the step before, the probabilities of rollouts and training differ by "
            f"{mean:.2g} in the mean and correlate with {correlation:.4f}; in {self.precision} they keep within "
            f"{limits.mean:g} and {limits.correlation:g} as long as vLLM has the weights that are trained"
        )
