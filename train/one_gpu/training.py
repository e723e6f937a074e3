"""The training loop of one GPU: rollouts, rewards and one update in each step, with saving, resuming and export."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag_zeval.files import Row, iter_jsonl, json_line, write_bytes
from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.models.decoding import Generated, stop_ids
from rag_zeval.models.folder import read_card
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages.training_log import VALIDATION
from rag_zeval.text import text_id
from rewards.combined import combined_reward
from rewards.tokens import PolicyTokens
from train.chosen_tokens import Chosen, log_probs_and_entropy
from train.export.plain_model import complete
from train.one_gpu.sampler import Sampler
from train.one_gpu.settings import OneGPUSettings
from train.reward_metrics import reward_metrics
from train.step_lines import StepLines

CLIP = 0.2  # verl's clip_ratio
DUAL_CLIP = 3.0  # verl's clip_ratio_c: the largest ratio that counts, which matters for negative advantages only
MAX_NORM = 1.0  # largest norm of the gradient
LIVE = 1e-4  # a prompt teaches nothing if its rewards have a smaller standard deviation
AT_ONCE = 128  # validation prompts in one batch
Parts = dict[str, float]


@dataclass(frozen=True)
class Prompt:
    """A row's prompt as token ids, with what is needed to score its replies.

    truth: what the reward uses, as JSON: `alphas`, `variant`, `reference` and, if the prompt repeats them, `answers`.
    """

    ids: list[int]
    truth: str
    alphas: list[float]
    answers: list[str] | None
    reference: ReferenceIndex
    variant: str

    def score(self, text: str, words: PolicyTokens) -> Parts:
        return combined_reward(text, self.alphas, self.reference, words, variant=self.variant, answers=self.answers)


def read_prompt(row: Row, tokenizer: Any, words: PolicyTokens) -> Prompt:
    """Return the prompt of a row. words: the tokens in which quotes are compared with the reference."""
    stored, ids = row["reward_model"]["ground_truth"], chat_ids(tokenizer, row["prompt"])
    truth = json.loads(stored)
    reference = ReferenceIndex(words(truth["reference"]))
    return Prompt(ids, stored, truth["alphas"], truth.get("answers"), reference, truth["variant"])


class Training:
    """A training run in `settings.out_dir`. `run` starts or resumes it and trains to its end."""

    def __init__(self, settings: OneGPUSettings, base: str, train: Sequence[Row], val: Sequence[Row]):
        self.settings, self.base, self.folder = settings, base, Path(settings.out_dir)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.words = PolicyTokens(self.tokenizer)
        self.train, self.val = ([read_prompt(row, self.tokenizer, self.words) for row in rows] for rows in (train, val))
        random.Random(settings.seed).shuffle(self.train)
        self.policy: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).to(self.device)
        self.eos = stop_ids(self.policy, self.tokenizer)
        longest = max(len(prompt.ids) for prompt in [*self.train, *self.val])
        rows = max(settings.prompts * settings.rollouts, AT_ONCE)
        self.sampler = Sampler(
            self.policy.config, rows, longest, settings.max_reply_tokens, self.eos, self.policy.device
        )
        self.optimizer = torch.optim.AdamW(
            self.policy.parameters(), lr=settings.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        self.done = 0  # finished steps
        self.best: dict[str, Any] = {}  # "score", "step" and "weights" of the best validated policy

    def run(self) -> None:
        """Train, then write the policy with the best validation score to model/. Step 0 counts too."""
        self.restore()
        lines = StepLines(self.settings.steps)
        self.sampler.load(self.policy.state_dict())
        if self.done == 0:
            self.log(0, self.validate(), lines)
        while self.done < self.settings.steps:
            begun, step = time.time(), self.done + 1
            data = self.step(step)
            self.done = step
            self.sampler.load(self.policy.state_dict())
            validated = step % self.settings.validate_every == 0 or step == self.settings.steps
            if validated:
                data |= self.validate()
            self.log(step, {**data, "timing_s/step": time.time() - begun}, lines)
            if validated:
                self.save()
        self.export()

    def step(self, step: int) -> Parts:
        """Run one step: rollouts of the next prompts, their rewards, one update. Returns metrics with verl's names."""
        settings = self.settings
        torch.manual_seed(settings.seed * 1_000_003 + step)  # so that a resumed run draws the same rollouts
        first = (step - 1) * settings.prompts
        batch = [self.train[at % len(self.train)] for at in range(first, first + settings.prompts)]
        replies = self.sampler.sample(
            [prompt.ids for prompt in batch], settings.rollouts, settings.max_reply_tokens, settings.temperature
        )
        asked = [prompt for prompt in batch for _ in range(settings.rollouts)]
        texts = [self.text(ids) for ids, _ in replies]
        parts = [prompt.score(text, self.words) for prompt, text in zip(asked, texts, strict=True)]
        self.write_rollouts(step, asked, texts, parts)
        rewards = torch.tensor([part["score"] for part in parts]).view(-1, settings.rollouts)
        norm = self.update(asked, replies, advantages(rewards).flatten().tolist(), step)
        lengths = [float(len(ids)) for ids, _ in replies]
        return {
            **reward_metrics(parts, [len(prompt.alphas) for prompt in asked]),
            "critic/score/mean": float(rewards.mean()),
            "response_length/mean": mean(lengths),
            "response_length/max": max(lengths),
            **({"actor/grad_norm": norm} if math.isfinite(norm) else {}),
        }

    def update(self, asked: Sequence[Prompt], replies: Generated, advantage: Sequence[float], step: int) -> float:
        """Update the policy with PPO's clipped loss, as verl computes it. Returns the norm of the gradient.

        A gradient that is not finite changes nothing. There is one difference from verl. The loss is a mean over the
        tokens of rollouts whose advantage is not 0. verl's is one over the tokens of all rollouts, so the fewer
        rollouts teach something, the smaller are its gradients.
        """
        live = [at for at, value in enumerate(advantage) if value]
        rows = [(asked[at].ids, replies[at][0]) for at in live]
        total = sum(len(reply) for _, reply in rows)
        self.optimizer.zero_grad()
        for some in batches([len(prompt) + len(reply) for prompt, reply in rows], self.settings.batch_tokens):
            new = reply_log_probs(self.policy, [rows[at] for at in some], self.settings.temperature)
            old = torch.tensor(list(itertools.chain(*(replies[live[at]][1] for at in some))), device=self.device)
            weight = torch.tensor([advantage[live[at]] for at in some for _ in rows[at][1]], device=self.device)
            ratio = (new - old).exp().clamp(max=DUAL_CLIP)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            (-torch.minimum(ratio * weight, clipped * weight).sum() / total).backward()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self.share_of_rate(step)
        norm = float(torch.nn.utils.clip_grad_norm_(self.policy.parameters(), MAX_NORM))
        if math.isfinite(norm):
            self.optimizer.step()
        else:  # as in verl
            print(f"warning: step {step}: the gradient is not finite, so the policy stays as it is", file=sys.stderr)
        return norm

    def share_of_rate(self, step: int) -> float:
        """Return the factor of the learning rate, in (0, 1]. It rises linearly in the warm-up, and falls towards 0."""
        return min(step / self.settings.warmup_steps, 1 - (step - 1) / self.settings.steps)

    def validate(self) -> Parts:
        """Score greedy replies to the validation rows, and keep the policy if it is the best so far.

        The score is the mean share of pairs in the right order. A tie counts half, a reply with a wrong format 0.
        """
        parts: list[Parts] = []
        for first in range(0, len(self.val), AT_ONCE):
            some = self.val[first : first + AT_ONCE]
            replies = self.sampler.sample([prompt.ids for prompt in some], 1, self.settings.max_reply_tokens, 0)
            parts += [prompt.score(self.text(ids), self.words) for prompt, (ids, _) in zip(some, replies, strict=True)]
        score = mean(part["format"] * (part["pair_accuracy"] + part["tie_rate"] / 2) for part in parts)
        if score > self.best.get("score", -1):
            weights = {name: weight.cpu().clone() for name, weight in self.policy.state_dict().items()}
            self.best = {"score": score, "step": self.done, "weights": weights}
        # As in verl, these means include replies with a wrong format, whose parts are 0.
        named = {f"val-aux/rag_zeval/{name}/mean@1": mean(part[name] for part in parts) for name in parts[0]}
        return {**named, VALIDATION: mean(part["score"] for part in parts), "val/half_ties": score}

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids[:-1] if ids and ids[-1] in self.eos else ids)
        return text

    def write_rollouts(self, step: int, asked: Sequence[Prompt], texts: Sequence[str], parts: Sequence[Parts]) -> None:
        """Write a step's rollouts as verl does, so that `make reward-audit` can read them."""
        inputs = [self.tokenizer.decode(prompt.ids, skip_special_tokens=True) for prompt in asked]
        rows = [
            {
                "input": shown,
                "output": text,
                "gts": prompt.truth,
                "score": part["score"],
                "step": step,
                "uid": f"{text_id('prompt', shown)}_{at % self.settings.rollouts}_0",
            }
            for at, (shown, prompt, text, part) in enumerate(zip(inputs, asked, texts, parts, strict=True))
        ]
        write_bytes(self.folder / "rollouts" / "train" / f"{step}.jsonl", b"".join(map(json_line, rows)))

    def log(self, step: int, data: Parts, lines: StepLines) -> None:
        """Append a step to metrics.jsonl, which `make dynamics` plots, and print its line."""
        with (self.folder / "metrics.jsonl").open("ab") as file:
            file.write(json_line({"step": step, "data": data}))
        lines.step(step, data)

    def save(self) -> None:
        """Save all that the next step needs in one file, which is replaced atomically."""
        part = self.folder / "state.part"
        state = {"step": self.done, "policy": self.policy.state_dict(), "best": self.best}
        torch.save({**state, "optimizer": self.optimizer.state_dict()}, part)
        os.replace(part, self.folder / "state.pt")

    def restore(self) -> None:
        """Resume after the last saved step, if there is one. Later steps are removed from the log: they run again."""
        path, log = self.folder / "state.pt", self.folder / "metrics.jsonl"
        if not path.exists():
            log.unlink(missing_ok=True)
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.done, self.best = state["step"], state["best"]
        rows = [row for _, row in iter_jsonl(log, {"step": int}, growing=True) if row["step"] <= self.done]
        write_bytes(log, b"".join(map(json_line, rows)))
        print(f"resuming after step {self.done} of {self.settings.steps}")

    def export(self) -> None:
        """Write the best policy to model/, a plain model in fp32 with the base's tokenizer and card."""
        part, model = self.folder / "model.part", self.folder / "model"
        self.policy.load_state_dict(self.best["weights"])
        shutil.rmtree(part, ignore_errors=True)
        self.policy.save_pretrained(part)
        complete(part, [Path(self.base)], {**read_card(self.base), "variant": self.train[0].variant})
        shutil.rmtree(model, ignore_errors=True)
        part.rename(model)
        (self.folder / "state.pt").unlink(missing_ok=True)
        print(f"exported step {self.best['step']}, the best on the validation rows\n{os.path.relpath(model)}")


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Return GRPO's advantages of rewards, both [prompts, rollouts].

    An advantage is the distance from the mean of the prompt's rollouts, in standard deviations. It is exactly 0 if the
    prompt's rewards are all the same.
    """
    spread = rewards.std(1, keepdim=True)
    return torch.where(spread > LIVE, (rewards - rewards.mean(1, keepdim=True)) / (spread + 1e-6), 0.0)


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches of row indices, by length. Rows x longest row is at most `budget`, but a longer row goes alone."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[at] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def reply_log_probs(policy: Any, rows: Sequence[tuple[list[int], list[int]]], temperature: float) -> torch.Tensor:
    """Return the log-probabilities [tokens] of all reply tokens of rows (prompt, reply), row after row."""
    device, width = policy.device, max(len(prompt) + len(reply) for prompt, reply in rows)
    ids = [[*prompt, *reply] + [0] * (width - len(prompt) - len(reply)) for prompt, reply in rows]
    spans = [(at, len(prompt) - 1 + i) for at, (prompt, reply) in enumerate(rows) for i in range(len(reply))]
    row_numbers, places = torch.tensor(spans, device=device).unbind(1)
    tokens = torch.tensor([token for _, reply in rows for token in reply], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        # No mask is needed: rows are padded at the end, and attention is causal.
        states = policy.model(input_ids=torch.tensor(ids, device=device), use_cache=False).last_hidden_state
        chosen = Chosen(torch.arange(len(tokens), device=device), tokens)
        weight = policy.lm_head.weight
        values, _ = log_probs_and_entropy(states[row_numbers, places], weight, None, chosen, temperature, False)
    return values
