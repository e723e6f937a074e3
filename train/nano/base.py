"""Train the nano base from scratch: `make nano-base` writes checkpoints/nano-base/.

A model of the Llama architecture with 2M parameters first learns to copy repeated random sequences, because judging
stays at chance until it can copy. Then it learns to answer with a passage, to answer from memory, and to judge. Judging
starts with few short candidates and goes up to four.

The loss has a higher weight for two tokens among thirty: the verdict, and what follows it (another claim, another
candidate, the end). In the last lessons some verdicts are coin flips (`train.nano.tasks`), so that reinforcement
learning has something to improve. With coin flips from the start, the model would not learn what a verdict is.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from rag_zeval.errors import InputError
from rag_zeval.files import write_json
from rag_zeval.models.folder import model_sha256
from rag_zeval.progress import Progress
from rag_zeval.stages.command import stage_main
from rag_zeval.stages.config import Section, Seed, Text, check_settings
from rag_zeval.stages.weights import share_weights
from train.nano.tasks import NO_EVIDENCE, UNDECIDED, VARIANT, Sample, answering, judging
from train.nano.tokenizer import CLAIM_ENDINGS, END, build_tokenizer

IGNORED = -100
Part = Annotated[float, Field(ge=0, le=1)]


class Settings(Section):
    """The keys of `configs/nano_base.yaml`, where they are explained."""

    out_dir: Text
    overwrite: bool
    seed: Seed
    steps: PositiveInt
    hidden: PositiveInt
    intermediate: PositiveInt
    layers: Annotated[int, Field(ge=2)]  # the first two get heads that look back
    heads: Annotated[int, Field(ge=2)]
    window: PositiveInt
    lr_matrices: PositiveFloat
    lr_rest: PositiveFloat
    bf16: bool
    copy_share: Part
    decision_weight: PositiveFloat
    undecided_from: Part
    no_evidence_share: Part

    @model_validator(mode="after")
    def _check_heads(self) -> Settings:
        if self.hidden % (2 * self.heads):
            raise InputError(f"hidden: must be a multiple of {2 * self.heads} (2 x heads), found {self.hidden}")
        return self


def build_model(tokenizer: Any, config: Any) -> Any:
    """Return a small Llama with attention biases, and with heads that initially attend one and two tokens back."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=math.ceil(len(tokenizer) / 64) * 64,
            hidden_size=config.hidden,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            attention_bias=True,
            initializer_range=0.04,
            max_position_embeddings=config.window,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            attn_implementation="sdpa",
        )
    )
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    _look_back(model)
    return model


def _look_back(model: Any) -> None:
    """Give heads 0 and 1 of the first two layers biases that, under RoPE, attend one and two tokens back.

    The product of a query bias that is rotated by `offset` and a constant key bias is largest at that distance. This is
    half of an induction circuit, which so small a model otherwise needs thousands of steps to learn.
    """
    import torch

    sharpness, size = 9.0, model.config.hidden_size // model.config.num_attention_heads
    frequency = 1e6 ** (-torch.arange(0, size, 2) / size)
    with torch.no_grad():
        for layer in model.model.layers[:2]:
            attention = layer.self_attn
            for head, offset in enumerate((1, 2)):
                rows = slice(head * size, (head + 1) * size)
                attention.q_proj.weight[rows] *= 0.1
                attention.k_proj.weight[rows] *= 0.1
                turned = torch.cat([torch.cos(offset * frequency), -torch.sin(offset * frequency)])
                attention.q_proj.bias[rows] = sharpness * turned
                attention.k_proj.bias[rows] = sharpness * torch.cat([torch.ones(size // 2), torch.zeros(size // 2)])
                attention.v_proj.weight[rows].normal_(0, 0.07)
                attention.o_proj.weight[:, rows].normal_(0, 0.07)


class Lessons:
    """The training loop and its state: model, optimizers, and moving averages of losses and accuracy."""

    def __init__(self, config: Any, tokenizer: Any, model: Any):
        import torch

        self.config, self.tokenizer, self.model = config, tokenizer, model
        self.rng = random.Random(config.seed)
        matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
        rest = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
        self.optimizers = [
            torch.optim.Muon(matrices, lr=config.lr_matrices, momentum=0.95, weight_decay=0.01),
            torch.optim.AdamW(rest, lr=config.lr_rest, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.verdicts = torch.tensor([tokenizer.convert_tokens_to_ids(word) for word in ("false", "true")])
        self.endings = torch.tensor(tokenizer.convert_tokens_to_ids(CLAIM_ENDINGS))
        self.averages: dict[str, float] = {}
        self.copied_at = 0.0  # progress in [0, 1] at which the copy warm-up ended; 0: not yet

    def watch(self, name: str, value: float) -> None:
        """Update the moving average of a value. The new value has weight 0.1; NaN is ignored."""
        if value == value:  # the verdict accuracy of a batch without verdicts is NaN
            self.averages[name] = 0.9 * self.averages.get(name, value) + 0.1 * value

    def encode(self, sample: Sample) -> tuple[list[int], list[int]]:
        """Return the token ids of the prompt in the chat template, and of the reply with its end token."""
        message = [{"role": "user", "content": sample.prompt}]
        text = self.tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return self.tokenizer(text)["input_ids"], self.tokenizer(sample.reply + END)["input_ids"]

    def batch(self, samples: Iterable[Sample]) -> tuple[Any, Any]:
        """Return `(ids, labels)`, both LongTensor [samples, longest]. Labels are IGNORED at prompt and padding."""
        import torch

        pairs = [self.encode(sample) for sample in samples]
        ids = [torch.tensor(prompt + reply) for prompt, reply in pairs]
        labels = [torch.tensor([IGNORED] * len(prompt) + reply) for prompt, reply in pairs]
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        return pad(ids, padding_value=self.tokenizer.pad_token_id), pad(labels, padding_value=IGNORED)

    def copy_batch(self) -> tuple[Any, Any]:
        """Return `(ids, labels)` of random words with a segment that occurs three times.

        The labels are IGNORED up to the end of its first occurrence and the gap after it.
        """
        import torch

        first_word, words = 259, len(self.tokenizer)  # words follow the special tokens and the bytes
        length, gap, start = self.rng.randint(6, 24), self.rng.randint(0, 6), self.rng.randint(0, 8)
        segment, between, before = (torch.randint(first_word, words, (40, size)) for size in (length, gap, start))
        ids = torch.cat([before, segment, between, segment, segment], 1)
        labels = ids.clone()
        labels[:, : start + length + gap] = IGNORED
        return ids, labels

    def learn(self, ids: Any, labels: Any, name: str, scale: float = 1.0, decision_weight: float = 1.0) -> None:
        """Run one forward and backward pass. Gradients accumulate until `step`."""
        import torch

        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.config.bf16):
            hidden = self.model.model(input_ids=ids).last_hidden_state[:, :-1]
            labels = labels[:, 1:]
            learned = labels != IGNORED
            logits = self.model.lm_head(hidden[learned]).float()
        labels = labels[learned]
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        is_verdict = torch.isin(labels, self.verdicts)
        if name == "judge":
            right = logits[is_verdict][:, self.verdicts].argmax(-1) == (labels[is_verdict] == self.verdicts[1]).long()
            self.watch("verdict", right.float().mean().item())
        self.watch(name, losses.mean().item())
        is_decision = is_verdict | torch.isin(labels, self.endings)
        weights = 1 + (decision_weight - 1) * is_decision.float()
        (scale * (losses * weights).mean()).backward()

    def step(self, progress: float, number: int) -> None:
        """Take an optimizer step with gradients clipped to norm 1.

        Learning rates rise over 50 steps, and fall to 3% over the last 40% of the training.
        """
        import torch

        rate = min(1.0, (number + 1) / 50) * (1.0 if progress < 0.6 else max(0.03, (1 - progress) / 0.4))
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, base in zip(self.optimizers, (self.config.lr_matrices, self.config.lr_rest), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
            optimizer.step()
        self.model.zero_grad()

    def copying(self, progress: float) -> bool:
        """Whether the copy warm-up continues. It ends when copying is learned, or after its share of the steps."""
        if not self.copied_at and (self.averages.get("copy", 9.0) < 1.0 or progress > self.config.copy_share):
            self.copied_at = progress
        return not self.copied_at

    def judging_batch(self, progress: float) -> list[Sample]:
        """Return judging samples of one size: first few short candidates, later up to four with four claims each."""
        done = (progress - self.copied_at) / (1 - self.copied_at)
        if done < 0.15:
            candidates, claims, rows = self.rng.choice([(1, 2, 20), (2, 2, 14)])
        elif done < 0.4:
            candidates, claims, rows = self.rng.choice([(1, 4, 16), (2, 2, 16), (3, 2, 11), (2, 4, 10)])
        else:
            candidates, claims, rows = self.rng.choice([(2, 4, 10), (3, 4, 8), (4, 4, 6), (4, 4, 6)])
        variant = NO_EVIDENCE if self.rng.random() < self.config.no_evidence_share else VARIANT
        undecided = UNDECIDED if progress > self.config.undecided_from else frozenset()
        return [judging(self.rng, candidates, claims, variant, undecided) for _ in range(rows)]

    def train(self) -> None:
        """Run all steps: copying until it is learned, then judging with growing difficulty, and answering."""
        with Progress() as progress, progress.job("nano base", self.config.steps) as steps:
            for number in range(self.config.steps):
                done = number / self.config.steps
                if self.copying(done):
                    self.learn(*self.copy_batch(), "copy")
                else:
                    samples = self.judging_batch(done)
                    self.learn(*self.batch(samples), "judge", decision_weight=self.config.decision_weight)
                    read = number % 2 == 0
                    samples = [answering(self.rng, with_passage=read) for _ in range(8 if read else 20)]
                    self.learn(*self.batch(samples), "with passage" if read else "from memory", scale=0.5)
                self.step(done, number)
                steps.advance(" ".join(f"{name} {value:.3f}" for name, value in self.averages.items()))


def build_base(asked: DictConfig) -> int:
    """Train the nano base, save it, and return 0. `experiments.nano_cards` writes its model card after measuring it."""
    config = check_settings(Settings, asked)
    out = Path(config.out_dir)
    if (out / "model.safetensors").exists() and not config.overwrite:
        raise InputError(f"{out}: already holds a model; overwrite=true replaces it")
    out.mkdir(parents=True, exist_ok=True)  # if that is impossible, it must not fail after the training
    import torch

    torch.manual_seed(config.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, config)
    started = time.monotonic()
    Lessons(config, tokenizer, model).train()
    minutes = (time.monotonic() - started) / 60
    model.eval()
    model.save_pretrained(out)
    share_weights(out)
    tokenizer.save_pretrained(out)
    write_json(out / "rag_zeval.json", {"world": "nano", "variant": VARIANT})
    made = {
        "config": {key: value for key, value in asked.items() if key not in ("out_dir", "overwrite")},
        "minutes": round(minutes, 1),
        "parameters": sum(p.numel() for p in model.parameters()),
        "model_sha256": model_sha256(out),
    }
    write_json(out / "training.json", made)
    print(f"saved {out} after {minutes:.1f} minutes")
    return 0


main = stage_main("nano_base", build_base)

if __name__ == "__main__":
    sys.exit(main())
