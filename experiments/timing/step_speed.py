"""`make bench-step`: time the parts of our GRPO step on one CPU thread, against those of a plain step.

Both sides have the same prompts (K=3), seeds and base model. The temperature is 1, as in the paper; all other settings
are those of the nano profile.

- `plain` decodes all rollouts as one left-padded batch, one token per pass. verl's worker with verl's FSDP engine then
  computes the old and the reference log-probabilities and the update, on micro-batches that hold the rollouts of one
  prompt.
- `ours` decodes with `rag_zeval.models.decoding`, uses the rollouts' own log-probabilities as the old ones, and runs
  the same worker with `train.verl_cpu.engine`. Both engines get the same rollouts.

Parts that are the same on both sides are not timed: rewards, advantages, sending weights to the rollout server. The
learning rate is 0, so all pairs time the same step. `same result` means that rollouts are the same token for token,
that log-probabilities agree to 1e-4, and gradient norms to 1e-4 of the norm.
"""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

import typer

from experiments.timing.pairs import table
from rag_zeval.streams import command_line


def step_speed() -> None:
    os.environ.setdefault("VERL_PLATFORM", "cpu")  # verl reads both when it is first imported
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # verl prints a lot
        from experiments.timing.step_sides import measure_step

    step = measure_step(prompts=8, rollouts=8, new_tokens=640, pairs=3)
    print(table(step, "plain"))
    if not all(part.equal for part in step):
        raise typer.Exit(1)


main = command_line(step_speed, "experiments.timing.step_speed", __doc__)

if __name__ == "__main__":
    sys.exit(main())
