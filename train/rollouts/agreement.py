"""Whether rollouts come from the weights that are trained: what verl measures of it, and what a healthy run keeps to.

verl computes the probability of each rolled-out token again with the weights it trains, and logs how the two differ. In
bf16 the largest difference says nothing, for single tokens differ much in healthy runs; mean and correlation do.
"""

from collections.abc import Mapping
from math import nan
from typing import Any, NamedTuple

from omegaconf import OmegaConf

MEAN = "training/rollout_probs_diff_mean"  # of |p - p of the rollout| over the tokens of a step
CORRELATION = "training/rollout_actor_probs_pearson_corr"


class Limits(NamedTuple):
    """The largest mean difference and the smallest correlation that are not worth a warning."""

    mean: float
    correlation: float


# By precision, between a healthy run and one whose rollouts keep the first weights. `make rehearse` prints the healthy
# figures (paper profile: mean 5.3e-7 in fp32; 4.1e-4 and correlation 0.9987 in bf16), `pytest -m slow -s
# tests/experiments/first_hour/test_faults.py` the others (1.7e-3; 2.0e-3 and 0.9657). In bf16 it is the correlation
# that tells them apart: the mean is larger the less certain a model is of its tokens; the tiny one is sure of most.
LIMITS = {"fp32": Limits(1e-4, 0.9999), "bf16": Limits(0.02, 0.99)}


def precision(verl: Any) -> str:
    """`fp32` if rollout and training both compute in it, else `bf16`; `verl` is verl's whole config."""
    keys = ("rollout.dtype", "actor.fsdp_config.mixed_precision.param_dtype")
    dtypes = [OmegaConf.select(verl, f"actor_rollout_ref.{key}") for key in keys]
    return "fp32" if all(dtype in ("fp32", "float32") for dtype in dtypes) else "bf16"


def within(data: Mapping[str, float], limits: Limits) -> bool:
    """Whether a step's metrics keep to the limits, or have none of both; a NaN does not."""
    mean, correlation = data.get(MEAN, 0.0), data.get(CORRELATION, 1.0)
    return mean <= limits.mean and correlation >= limits.correlation


class Agreement:
    """Watches the steps of a run, and warns once."""

    def __init__(self, verl: Any):
        self.precision, self.warned = precision(verl), False

    def step(self, step: int, data: Mapping[str, float]) -> str | None:
        """The warning, if this step is the first one that deserves it."""
        limits = LIMITS[self.precision]
        if self.warned or within(data, limits):
            return None
        self.warned = True
        mean, correlation = (data.get(name, nan) for name in (MEAN, CORRELATION))
        return (
            f"warning: in step {step} the probabilities of rollouts and training differ by {mean:.2g} in the mean and "
            f"correlate with {correlation:.4f}; in {self.precision} they keep within {limits.mean:g} and "
            f"{limits.correlation:g} as long as vLLM has the weights that are trained"
        )
