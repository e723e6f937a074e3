"""The progress lines of a training run: its metrics and the time left, for each step or every few steps."""

import sys
import time
from collections import deque
from collections.abc import Mapping

from rich.console import Console

from rag_zeval.stages.training_log import VALIDATION
from rag_zeval.streams import drawn

# Names in a line, and their metrics. A step without validation has no "val".
SHOWN = {
    "loss": "train/loss",  # the only one in supervised fine-tuning
    "reward": "critic/score/mean",
    "format": "reward_extra/format/mean",
    "evidence": "reward_extra/evidence/mean",
    "accuracy": "reward_extra/accuracy/mean",
    "KL": "actor/kl_loss",
    "val": VALIDATION,
}


# Shown only if they are not 0: rollouts that verl lost, and the share that the reward could not score.
TROUBLE = {"ROLLOUTS LOST": "rollouts/missing", "REWARD ERRORS": "reward_extra/errors/mean"}


def shown(data: Mapping[str, float]) -> str:
    """Return `reward 0.412  format 0.980 ...` with the metrics that this step has."""
    values = {name: data.get(metric) for name, metric in SHOWN.items()}
    digits = {"KL": 5, "loss": 4}
    parts = [f"{name} {value:.{digits.get(name, 3)}f}" for name, value in values.items() if value is not None]
    return "  ".join(parts + [f"{name} {data[metric]:.3g}" for name, metric in TROUBLE.items() if data.get(metric)])


def seconds_taken(data: Mapping[str, float]) -> float:
    """Return the wall-clock seconds of a step: rollouts, update, checkpoint and validation."""
    return data.get("timing_s/step", 0.0) + data.get("timing_s/testing", 0.0)


class StepLines:
    """Prints lines about the steps of a run as they end. total: steps of the run. every: one line per so many steps."""

    def __init__(self, total: int, every: int = 1):
        self.console = Console(file=drawn(sys.stdout), highlight=False)
        self.total, self.every = total, every
        self.started = time.monotonic()
        self.ended: deque[tuple[int, float]] = deque(maxlen=21)  # the latest steps and when they ended

    def step(self, step: int, data: Mapping[str, float]) -> None:
        """Print the line of a finished step (0: validation before training), if it is due."""
        if not self.ended:
            seconds = time.monotonic() - self.started - seconds_taken(data)
            self.console.print(f"ready after {seconds:.0f} s")
        self.ended.append((step, time.monotonic()))
        if step % self.every == 0 or step == self.total:
            self.console.print(f"step {step}/{self.total}  {shown(data)}{self._left(step)}", soft_wrap=True)

    def _left(self, step: int) -> str:
        first, begun = self.ended[0]
        if step == first:
            return ""
        pace = (self.ended[-1][1] - begun) / (step - first)
        return f"  {pace:.1f} s a step, {pace * (self.total - step) / 60:.0f} min left"
