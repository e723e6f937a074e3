"""`make bench-step`: time a GRPO step on one CPU thread, part by part, against plain decoding and verl's own engine.

Both sides have the same prompts (K=3), seeds and base model, the paper's temperature of 1, and otherwise the settings
of the nano profile.

- `plain` decodes all rollouts as one left-padded batch, one token per pass. It writes its cache in place and drops
  finished rows. verl's worker with verl's FSDP engine then computes the old and the reference log-probabilities and the
  update, on padded micro-batches that hold the rollouts of one prompt.
- `ours` decodes with `rag_zeval.models.decoding` and uses the rollouts' own log-probabilities as the old ones. It runs
  the same worker with `train.verl_cpu.engine`.

Both engines get the same rollouts. The other parts of a step (rewards, advantages, sending weights to the rollout
server) are the same on both sides and are not timed.

Each part is timed in pairs taken back to back, after a warm-up that is not counted. A ratio is the median over the
pairs. The learning rate is 0, so that all pairs time the same step. `same result` means that the rollouts are the same
token for token, that log-probabilities agree to 1e-4, and that gradient norms agree to 1e-4 of the norm. Two rollouts
may differ where the draw is within 1e-4 of the probability at which the token changes. One entry is appended to
`runs/speed/summary.json`: `{name, ratio, ours_s, theirs_s, equal, difference, pairs, parts, ran}`, with medians in
seconds. theirs: plain; parts: the same for each part.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from unittest import mock

import typer

from experiments.timing.pairs import Entry, append, compare, entry
from rag_zeval.streams import exit_status, run_command

if TYPE_CHECKING:
    from omegaconf import DictConfig

PROMPTS, ROLLOUTS, NEW_TOKENS, PAIRS = 8, 8, 640, 3  # rollouts: of each prompt
CANDIDATES = 3
VARIANT = "compact"
TEMPERATURE = 1.0

Rollouts = list[tuple[list[int], list[float]]]  # token ids, and their log-probabilities


@dataclass(frozen=True)
class Task:
    """The rollouts of one step: for each its prompt, its seed, and a made-up advantage (its value costs no time)."""

    model: Any
    prompts: list[list[int]]
    seeds: list[int]
    advantages: list[float]
    new_tokens: int
    eos: list[int]
    pad: int

    def decode_with_drafts(self) -> Rollouts:
        """Ours: the rollouts by `rag_zeval.models.decoding`."""
        from rag_zeval.models.decoding import generate

        sampling: dict[str, Any] = {"temperature": TEMPERATURE, "seeds": self.seeds}
        return generate(self.model, self.prompts, self.new_tokens, **sampling, eos=self.eos, pad=self.pad)

    def decode_token_by_token(self) -> Rollouts:
        """The same in the plain way: one left-padded batch, one token a pass."""
        import torch

        from rag_zeval.models.decoding import growing_cache

        width = max(map(len, self.prompts))
        ids = torch.tensor([[self.pad] * (width - len(prompt)) + prompt for prompt in self.prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in self.prompts])
        uniform = torch.stack([self.draws(seed) for seed in self.seeds])
        rows, cache = list(range(len(self.prompts))), growing_cache()
        written: Rollouts = [([], []) for _ in rows]
        with torch.inference_mode():
            for step in range(self.new_tokens):
                places = {
                    "attention_mask": mask,
                    "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :],
                }
                out = self.model(input_ids=ids, **places, past_key_values=cache, use_cache=True, logits_to_keep=1)
                logits = out.logits[:, -1].float() / TEMPERATURE
                cdf = logits.double().softmax(-1).cumsum(-1)
                drawn = torch.searchsorted(cdf, uniform[rows, step, None] * cdf[:, -1:], right=True)
                ids = drawn.clamp(max=logits.shape[-1] - 1)
                logprobs = logits.log_softmax(-1).gather(1, ids)
                for row, token, logprob in zip(rows, ids[:, 0].tolist(), logprobs[:, 0].tolist(), strict=True):
                    tokens, of_tokens = written[row]
                    if not tokens or tokens[-1] not in self.eos:
                        tokens.append(token)
                        of_tokens.append(logprob)
                live = [at for at, row in enumerate(rows) if written[row][0][-1] not in self.eos]
                if not live:
                    break
                if len(live) <= 0.8 * len(rows):  # at every end would copy the cache too often
                    rows, kept = [rows[at] for at in live], torch.tensor(live)
                    ids, mask = ids[kept], mask[kept]
                    for layer in cache.layers:
                        layer.keep(kept)
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        return written

    def draws(self, seed: int) -> Any:
        """float64 [new tokens]: the numbers by which `decoding.generate` draws the tokens of this seed."""
        import torch

        return torch.rand(self.new_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def farthest_draw(self, first: Rollouts, second: Rollouts) -> float:
        """Where two rollouts of one draw part: how far, of 1, it lies outside the share of either token, at most.

        0 if none part, 1 if one goes on after the other's end.
        """
        import torch

        from train.verl_cpu.shared_prefix import common_prefix

        distances = [0.0]
        for prompt, seed, (own, _), (other, _) in zip(self.prompts, self.seeds, first, second, strict=True):
            if own == other:
                continue
            shared = common_prefix(own, other)
            if shared == min(len(own), len(other)):
                return 1.0
            with torch.inference_mode():
                probs = self.model(torch.tensor([prompt + own[:shared]])).logits[0, -1].double().softmax(-1)
            ends = probs.cumsum(-1)
            draw = self.draws(seed)[shared] * ends[-1]
            tokens = torch.tensor([own[shared], other[shared]])
            outside = torch.maximum(ends[tokens] - probs[tokens] - draw, draw - ends[tokens])
            distances.append(float(outside.max()))
        return max(distances)

    def batch(self, rollouts: Rollouts) -> Any:
        """What verl's trainer gives to its workers, as nested tensors."""
        import torch
        from verl.utils import tensordict_utils as tu

        rows = [
            {
                "prompts": prompt,
                "responses": ids,
                "input_ids": prompt + ids,
                "position_ids": list(range(len(prompt) + len(ids))),
                "loss_mask": [0] * len(prompt) + [1] * len(ids),
                "response_mask": [1] * len(ids),
                "rollout_log_probs": logprobs,
                "advantages": [advantage] * len(ids),
            }
            for prompt, (ids, logprobs), advantage in zip(self.prompts, rollouts, self.advantages, strict=True)
        ]
        columns = {
            name: torch.nested.as_nested_tensor([torch.tensor(row[name]) for row in rows], layout=torch.jagged)
            for name in rows[0]
        }
        return tu.get_tensordict(columns, {"temperature": TEMPERATURE})


def log_probs(compute: Callable[[Any], Any], batch: Any, calculate_entropy: bool = False) -> Any:
    """Log-probabilities of the responses, nested, by a method of verl's worker.

    verl's trainer asks for the entropy along with the old ones.
    """
    from verl.workers.utils.padding import response_from_nested

    output = compute(_with_settings(batch, calculate_entropy=calculate_entropy, compute_loss=False))
    return response_from_nested(output["log_probs"], batch["response_mask"])


def gradient_norm(worker: Any, batch: Any) -> float:
    """Norm of the gradient of an update, before clipping."""
    from verl.utils import tensordict_utils as tu

    whole = {"global_batch_size": len(batch), "mini_batch_size": len(batch), "epochs": 1, "seed": 0}
    work = _with_settings(batch, calculate_entropy=False, dataloader_kwargs={"shuffle": False}, **whole)
    return float(tu.get(worker.update_actor(work), "metrics")["grad_norm"][0])


def _with_settings(batch: Any, **settings: Any) -> Any:
    """The same columns under a new roof: verl's workers write their own settings into what they are given."""
    from verl.utils import tensordict_utils as tu

    copy = batch.copy()
    tu.assign_non_tensor(copy, **settings)
    return copy


def largest_difference(first: Any, second: Any) -> float:
    """The largest difference between two nested tensors of one shape."""
    return float((first.values() - second.values()).abs().max())


def relative_difference(first: float, second: float) -> float:
    """How far two numbers above 0 are apart, as a share of the larger."""
    return abs(first - second) / max(first, second)


def measure_step(prompts: int, rollouts: int, new_tokens: int, pairs: int) -> Entry:
    """The summary's entry for a step of `prompts` x `rollouts` of at most `new_tokens`, timed `pairs` times."""
    # verl reads these when it is first imported
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
    import torch

    torch.set_num_threads(1)
    config = worker_config(rollouts)
    with one_process():
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # verl and transformers have much to say
            from train.verl_cpu.engine import CPUEngine

            task = draw_task(config.model, prompts, rollouts, new_tokens)
            plain, ours = (build_worker(config, engine) for engine in (padded_engine(), CPUEngine))
        written = task.decode_with_drafts()
        batch = task.batch(written)
        batch["old_log_probs"] = batch["rollout_log_probs"]
        batch["ref_log_prob"] = log_probs(ours.compute_ref_log_prob, batch)
        old = partial(log_probs, plain.compute_log_prob, batch, calculate_entropy=True)
        reference, plain_reference = (
            partial(log_probs, worker.compute_ref_log_prob, batch) for worker in (ours, plain)
        )
        update, plain_update = (partial(gradient_norm, worker, batch) for worker in (ours, plain))
        parts = [
            compare("rollouts", task.decode_with_drafts, task.decode_token_by_token, task.farthest_draw, pairs),
            compare("old log-probabilities", lambda: batch["rollout_log_probs"], old, largest_difference, pairs),
            compare("reference log-probabilities", reference, plain_reference, largest_difference, pairs),
            compare("update", update, plain_update, relative_difference, pairs),
        ]
    together = [
        {side: sum(part["pairs"][at][side] for part in parts) for side in ("ours_s", "theirs_s")} for at in range(pairs)
    ]
    step = entry("step", together, max(part["difference"] for part in parts))
    return {**step, "parts": parts, "ran": describe(task, written, rollouts, pairs)}


def worker_config(rollouts: int) -> DictConfig:
    """verl's configuration of the workers as the nano profile has it, with the rollouts of a prompt as micro-batch."""
    from rag_zeval.stages.config import load_config
    from train.launch import ROOT
    from train.verl_config import build

    settings = load_config("train", ["profile=nano"])
    worker = {
        "model.path": str(ROOT / settings.base_model),
        "actor.ppo_micro_batch_size_per_gpu": rollouts,
        "ref.log_prob_micro_batch_size_per_gpu": rollouts,
        "rollout.log_prob_micro_batch_size_per_gpu": rollouts,
        "rollout.data_parallel_size": 1,
        "actor.optim.lr": 0.0,
        "actor.optim.total_training_steps": 1,
    }
    return build(settings.verl, {f"actor_rollout_ref.{key}": value for key, value in worker.items()}).actor_rollout_ref


def draw_task(config: DictConfig, prompts: int, rollouts: int, new_tokens: int) -> Task:
    """Nano questions, each with answers of different true support; advantages are normal."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.judge.prompt import judge_messages
    from rag_zeval.models.decoding import stop_ids
    from rag_zeval.models.language_model import chat_ids
    from rag_zeval.stages import world
    from train.rollouts.seed import rollout_seed

    tokenizer = AutoTokenizer.from_pretrained(config.path)
    attention = config.override_config.attn_implementation
    model = AutoModelForCausalLM.from_pretrained(config.path, dtype=torch.float32, attn_implementation=attention).eval()
    asked: list[list[int]] = []
    for example in world.ranked_examples("train", prompts, CANDIDATES, 0):
        question = example.question
        messages = judge_messages(VARIANT, question.question, question.passage, example.answers)
        asked += [chat_ids(tokenizer, messages)] * rollouts
    return Task(
        model=model,
        prompts=asked,
        seeds=[rollout_seed(0, 0, prompt, at % rollouts) for at, prompt in enumerate(asked)],
        advantages=torch.randn(len(asked), generator=torch.Generator().manual_seed(0)).tolist(),
        new_tokens=new_tokens,
        eos=stop_ids(model, tokenizer),
        pad=tokenizer.pad_token_id,
    )


@contextmanager
def one_process() -> Iterator[None]:
    """Tells verl's workers their place in the process group that the first of them makes: they are in it alone."""
    import torch.distributed

    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    with mock.patch.dict(os.environ, place):
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


def padded_engine() -> type:
    """verl's own engine: of ours, only what lets it run on a CPU at all is left."""
    from train.linear_decay import LinearDecayEngine
    from train.verl_cpu.engine import CPUEngine

    verls = ("_build_module", "prepare_model_inputs", "prepare_model_outputs", "forward_step")
    return type("PaddedEngine", (CPUEngine,), {name: getattr(LinearDecayEngine, name) for name in verls})


def build_worker(config: DictConfig, engine: type) -> Any:
    """verl's worker for actor, rollout and reference model (no rollout server is started) on an engine of this kind."""
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine_workers import ActorRolloutRefWorker

    with mock.patch.dict(EngineRegistry._engines["language_model"]["fsdp2"], {"cpu": engine}):
        worker = ActorRolloutRefWorker(deepcopy(config), "actor_rollout_ref")  # it takes keys out of its configuration
        worker.init_model()
    return worker


def describe(task: Task, rollouts: Rollouts, each: int, pairs: int) -> str:
    """What was run; `each` rollouts of a prompt are a micro-batch, in which shared tokens are computed once."""
    import torch

    from train.verl_cpu.shared_prefix import pack

    rows = [prompt + ids for prompt, (ids, _) in zip(task.prompts, rollouts, strict=True)]
    packed = [pack(rows[at : at + each]).input_ids.numel() for at in range(0, len(rows), each)]
    written = [len(ids) for ids, _ in rollouts]
    return (
        f"{len(rows) // each} prompts x {each} rollouts, K={CANDIDATES}: {sum(map(len, rows)):,} tokens, "
        f"{sum(packed):,} after sharing; rollouts of {sum(written) / len(written):.0f} tokens, the longest "
        f"{max(written)}; medians of {pairs} interleaved pairs; {torch.get_num_threads()} thread, "
        f"torch {torch.__version__}"
    )


def table(step: Entry) -> str:
    """Seconds and ratio of every part and of the step, in Markdown, then what was run."""
    lines = ["| part | plain | ours | ratio | same result |", "|---|---:|---:|---:|---|"]
    for part in [*step["parts"], step]:
        ratio = "-" if part["ratio"] is None else f"{part['ratio']:.1f}"
        same = f"{'yes' if part['equal'] else 'NO'}, within {part['difference']:.0e}"
        lines.append(f"| {part['name']} | {part['theirs_s']:.2f} s | {part['ours_s']:.2f} s | {ratio} | {same} |")
    return "\n".join([*lines, step["ran"]])


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 measured, 1 the sides do not agree, 2 the input is wrong."""
    return run_command(step_speed, argv, "experiments.timing.step_speed", __doc__)


def step_speed(
    prompts: Annotated[int, typer.Option(min=1, help="The number of prompts of the step.")] = PROMPTS,
    rollouts: Annotated[int, typer.Option(min=1, help="The number of rollouts of each prompt.")] = ROLLOUTS,
    new_tokens: Annotated[int, typer.Option(min=1, help="The maximum length of a rollout, in tokens.")] = NEW_TOKENS,
    pairs: Annotated[int, typer.Option(min=1, help="How often to time each part.")] = PAIRS,
) -> None:
    step = measure_step(prompts=prompts, rollouts=rollouts, new_tokens=new_tokens, pairs=pairs)
    print(table(step))
    append(step)
    if not step["equal"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
