"""What one sees while verl trains: a line for each step, and on a terminal a bar with the time left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from rag_zeval.stages.training_log import VALIDATION

# what is shown, and the metric it is read from: a step without validation has none for "val"
SHOWN = {
    "reward": "critic/score/mean",
    "format": "reward_extra/format/mean",
    "evidence": "reward_extra/evidence/mean",
    "accuracy": "reward_extra/accuracy/mean",
    "KL": "actor/kl_loss",
    "val": VALIDATION,
}


# shown only when they are not 0: rollouts that verl lost, and the share that the reward could not score
TROUBLE = {"ROLLOUTS LOST": "rollouts/missing", "REWARD ERRORS": "reward_extra/errors/mean"}


def shown(data: Mapping[str, float]) -> str:
    """`reward 0.412  format 0.98 ...` for the metrics this step has."""
    values = {name: data.get(metric) for name, metric in SHOWN.items()}
    digits = {"KL": 5}
    parts = [f"{name} {value:.{digits.get(name, 3)}f}" for name, value in values.items() if value is not None]
    return "  ".join(parts + [f"{name} {data[metric]:.3g}" for name, metric in TROUBLE.items() if data.get(metric)])


def seconds_taken(data: Mapping[str, float]) -> float:
    """Wall-clock of a step: rollouts, update, checkpoint and validation."""
    return data.get("timing_s/step", 0.0) + data.get("timing_s/testing", 0.0)


class Display:
    """Steps as they end. `done` steps of `total` stood before this attempt."""

    def __init__(self, total: int, done: int):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.console = Console(highlight=False)
        self.total, self.ready, self.started = total, False, time.monotonic()
        self.seconds: list[float] = []
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Progress(
            *columns, TimeElapsedColumn(), console=self.console, disable=not self.console.is_terminal, transient=True
        )
        self.task = self.bar.add_task("starting verl", total=total, completed=done)

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.bar.stop()

    def step(self, step: int, data: Mapping[str, float]) -> None:
        """Show a finished step (0: validation before training)."""
        if not self.ready:
            self.ready = True
            seconds = time.monotonic() - self.started - seconds_taken(data)
            self.console.print(f"verl was ready after {seconds:.0f} s")
        if step > 0:
            self.seconds.append(seconds_taken(data))
        self.console.print(f"step {step}/{self.total}  {shown(data)}{self._left(step)}", soft_wrap=True)
        self.bar.update(self.task, completed=step, description=f"training{self._left(step)}")

    def _left(self, step: int) -> str:
        recent = self.seconds[-20:]
        if not recent:
            return ""
        mean = sum(recent) / len(recent)
        return f"  {mean:.1f} s a step, {mean * (self.total - step) / 60:.0f} min left"
