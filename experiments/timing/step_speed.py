"""`make bench-step`: time a GRPO step on one CPU thread, part by part, against a plain one.

Both sides have the same prompts (K=3), seeds and base model, the paper's temperature of 1, and otherwise the settings
of the nano profile.

- `plain` decodes all rollouts as one left-padded batch, one token per pass. verl's worker with verl's FSDP engine then
  computes the old and the reference log-probabilities and the update, on micro-batches that hold the rollouts of one
  prompt.
- `ours` decodes with `rag_zeval.models.decoding`, uses the rollouts' own log-probabilities as the old ones, and runs
  the same worker with `train.verl_cpu.engine`. Both engines get the same rollouts.

What is the same on both sides is not timed: rewards, advantages, sending weights to the rollout server. The learning
rate is 0, so that all pairs time the same step. `same result` means that rollouts are the same token for token, that
log-probabilities agree to 1e-4, and gradient norms to 1e-4 of the norm.
"""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import Annotated, Any

import typer

from experiments.timing import step_sides
from experiments.timing.pairs import TimedPairs, share_different, table, time_in_turn, total
from experiments.timing.step_sides import Rollouts, Worker, batch_of, one_process, worker_config
from rag_zeval.streams import exit_status, run_command

CANDIDATES = 3
TEMPERATURE = 1.0


def measure_step(prompts: int, rollouts: int, new_tokens: int, pairs: int) -> list[TimedPairs]:
    """The parts of a step, and their sum: `rollouts` of at most `new_tokens` tokens for each prompt."""
    os.environ.setdefault("VERL_PLATFORM", "cpu")  # verl reads both when it is first imported
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.models.decoding import generate, stop_ids
    from train.rollouts import rollout_seed

    torch.set_num_threads(1)
    config = worker_config(rollouts)
    path, attention = config.model.path, config.model.override_config.attn_implementation
    with one_process():
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # verl and transformers print a lot
            from train.verl_cpu.engine import CPUEngine

            tokenizer = AutoTokenizer.from_pretrained(path)
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=attention)
            plain, ours = Worker(config, step_sides.padded_engine()), Worker(config, CPUEngine)

        asked = [prompt for prompt in nano_prompts(tokenizer, prompts) for _ in range(rollouts)]
        sampling: Any = {
            "temperature": TEMPERATURE,
            "seeds": [rollout_seed(0, 0, prompt, at % rollouts) for at, prompt in enumerate(asked)],
            "eos": stop_ids(model, tokenizer),
            "pad": tokenizer.pad_token_id,
        }
        decode = partial(generate, model.eval(), asked, new_tokens, **sampling)
        decode_plainly = partial(step_sides.generate, model.eval(), asked, new_tokens, **sampling)

        batch = batch_of(asked, decode(), TEMPERATURE)
        own_log_probs = batch["old_log_probs"] = batch["rollout_log_probs"]
        batch["ref_log_prob"] = ours.reference_log_probs(batch)

        parts = [
            time_in_turn("rollouts", decode_plainly, decode, share_of_other_tokens, pairs),
            time_in_turn(
                "old log-probabilities",
                lambda: plain.old_log_probs(batch),
                lambda: own_log_probs,
                largest_difference,
                pairs,
            ),
            time_in_turn(
                "reference log-probabilities",
                lambda: plain.reference_log_probs(batch),
                lambda: ours.reference_log_probs(batch),
                largest_difference,
                pairs,
            ),
            time_in_turn(
                "update",
                lambda: plain.update(batch),
                lambda: ours.update(batch),
                relative_difference,
                pairs,
            ),
        ]
    return [*parts, total("step", parts)]


def share_of_other_tokens(plain: Rollouts, ours: Rollouts) -> float:
    """Share of rollouts whose tokens differ."""
    return share_different([ids for ids, _ in plain], [ids for ids, _ in ours])


def largest_difference(plain: Any, ours: Any) -> float:
    """The largest difference between two nested tensors of one shape."""
    return float((plain.values() - ours.values()).abs().max())


def relative_difference(plain: float, ours: float) -> float:
    """How far two numbers above 0 are apart, as a share of the larger."""
    return abs(plain - ours) / max(plain, ours)


def nano_prompts(tokenizer: Any, n: int) -> list[list[int]]:
    """Token ids of the judge's prompt for nano questions, each with answers of different true support."""
    from rag_zeval.judge.prompt import judge_messages
    from rag_zeval.models.language_model import chat_ids
    from rag_zeval.stages import world

    examples = world.ranked_examples("train", n, CANDIDATES, 0)
    asked = [judge_messages("compact", e.question.question, e.question.passage, e.answers) for e in examples]
    return [chat_ids(tokenizer, messages) for messages in asked]


def step_speed(
    prompts: Annotated[int, typer.Option(min=1, help="The number of prompts of the step.")] = 8,
    rollouts: Annotated[int, typer.Option(min=1, help="The number of rollouts of each prompt.")] = 8,
    new_tokens: Annotated[int, typer.Option(min=1, help="The maximum length of a rollout, in tokens.")] = 640,
    pairs: Annotated[int, typer.Option(min=1, help="How often to time each part.")] = 3,
) -> None:
    step = measure_step(prompts, rollouts, new_tokens, pairs)
    print(table(step, "plain"))
    if not all(part.equal for part in step):
        raise typer.Exit(1)


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 measured, 1 the sides do not agree, 2 the input is wrong."""
    return run_command(step_speed, argv, "experiments.timing.step_speed", __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
