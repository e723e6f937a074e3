"""`python -m experiments.nano_threshold models=[FOLDER, ...]`: what a moved verdict threshold alone would give.

A judge may rank better only because it says "supported" more or less readily. So each verdict of a nano judge's own
greedy trajectories is taken back to its margin, logit("true") - logit("false"), and decided again at every threshold.
The best threshold is chosen on the very prompts it is measured on: nothing that moves the threshold alone does better.
The area under the ROC curve (AUC) says how well margins tell true claims from false ones, whatever the threshold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval_benchmarks.bench_settings import BenchSettings, read_settings
from eval_benchmarks.datasets import nano_cad, nano_eval
from rag_zeval.errors import InputError
from rag_zeval.files import read_card
from rag_zeval.judge.parser import FormatError, parse_strict
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config
from rag_zeval.streams import exit_status

if TYPE_CHECKING:
    from rag_zeval.stages.world import RankedExample

BATCH = 64


@dataclass(frozen=True)
class JudgedPrompt:
    """A prompt's claims in order: which candidate states them, whether they are true, and the verdicts' margins."""

    example: RankedExample
    candidates: tuple[int, ...]
    truths: tuple[bool | None, ...]  # None: no readable claim
    margins: tuple[float, ...]

    def ranked(self, threshold: float) -> bool:
        """Whether the candidates are strictly in their true order with verdicts `margin > threshold`."""
        verdicts: list[list[bool]] = [[] for _ in self.example.answers]
        for candidate, margin in zip(self.candidates, self.margins, strict=True):
            verdicts[candidate].append(margin > threshold)
        scores = [sum(of) / len(of) if of else None for of in verdicts]
        return strictly_ranked(scores, self.example.true_support)

    def accuracy(self, threshold: float) -> float:
        """Share of claims judged rightly at this threshold, in [0, 1]."""
        right = [(margin > threshold) is truth for margin, truth in zip(self.margins, self.truths, strict=True)]
        return sum(right) / len(right)


def best_threshold(judged: Sequence[JudgedPrompt], steps: int = 200) -> float:
    """The threshold, of 0 and `steps` quantiles of all margins, with the highest ranking accuracy."""
    import numpy as np

    margins = [margin for prompt in judged for margin in prompt.margins]
    tried = [0.0, *np.quantile(margins, np.linspace(0, 1, steps)).tolist()]
    return max(tried, key=lambda threshold: sum(prompt.ranked(threshold) for prompt in judged))


def auc(judged: Iterable[JudgedPrompt]) -> float:
    """Chance that a true claim's margin is above a false one's: Mann-Whitney's U / (true claims x false claims)."""
    from scipy.stats import mannwhitneyu

    claims = [claim for prompt in judged for claim in zip(prompt.truths, prompt.margins, strict=True)]
    true, false = ([margin for truth, margin in claims if truth is wanted] for wanted in (True, False))
    u: float = mannwhitneyu(true, false).statistic
    return u / (len(true) * len(false))


def judge(
    model: Any, tokenizer: Any, examples: Sequence[RankedExample], variant: str, max_tokens: int
) -> list[JudgedPrompt]:
    """Greedy trajectories of a model that writes each verdict as one token, and their margins.

    Examples whose trajectory the strict parser does not read are left out.
    """
    from rich.progress import track

    from rag_zeval.models.decoding import generate, stop_ids

    eos, judged = stop_ids(model, tokenizer), []
    for start in track(range(0, len(examples), BATCH), description="judging"):
        batch = examples[start : start + BATCH]
        asked = [judge_messages(variant, e.question.question, e.question.passage, e.answers) for e in batch]
        prompts = [chat_ids(tokenizer, messages) for messages in asked]
        replies = [tokens for tokens, _ in generate(model, prompts, max_tokens, eos=eos, pad=eos[0])]
        margins = verdict_margins(model, tokenizer, prompts, replies)
        for example, reply, own in zip(batch, replies, margins, strict=True):
            text = tokenizer.decode(reply, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            prompt = read(example, text, own, variant)
            judged += [] if prompt is None else [prompt]
    return judged


def read(example: RankedExample, text: str, margins: Sequence[float], variant: str) -> JudgedPrompt | None:
    """The claims of a reply beside its margins; None if the strict parser does not read it."""
    try:
        trajectory = parse_strict(text, len(example.answers), variant)
    except FormatError:
        return None
    claims = [(at, claim) for at, candidate in enumerate(trajectory) for claim in candidate.atomic_claims]
    if [claim.is_supported for _, claim in claims] != [margin > 0 for margin in margins]:
        raise InputError("this model does not write its verdicts as the tokens 'true' and 'false'")
    truths = tuple(world.claim_is_true(claim.claim, example.question.facts) for _, claim in claims)
    return JudgedPrompt(example, tuple(at for at, _ in claims), truths, tuple(margins))


def verdict_margins(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]]
) -> list[list[float]]:
    """For each reply logit("true") - logit("false") where one of these tokens stands."""
    import torch

    false, true = tokenizer.convert_tokens_to_ids(["false", "true"])
    width = max(len(prompt) + len(reply) for prompt, reply in zip(prompts, replies, strict=True))
    rows = [[*p, *r, *[0] * (width - len(p) - len(r))] for p, r in zip(prompts, replies, strict=True)]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(rows, device=model.device)).logits
        margins = (logits[..., true] - logits[..., false]).float().tolist()
    return [
        [margins[row][len(prompt) + at - 1] for at, token in enumerate(reply) if token in (false, true)]
        for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True))
    ]


def line(folder: str, benchmark: str, judged: Sequence[JudgedPrompt], asked: int) -> str:
    """A row of the table."""
    best = best_threshold(judged)
    shares = [
        sum(values) / len(judged)
        for threshold in (0.0, best)
        for values in ([p.ranked(threshold) for p in judged], [p.accuracy(threshold) for p in judged])
    ]
    numbers = [f"{number:.3f}" for number in (auc(judged), *shares)]
    return f"| {' | '.join([folder, benchmark, f'{len(judged)} of {asked}', *numbers, f'{best:+.2f}'])} |"


HEAD = """\
| model | benchmark | prompts read | AUC | ranking | verdicts | ranking, best threshold | verdicts there | threshold |
|---|---|---|---|---|---|---|---|---|"""


def main(argv: Sequence[str]) -> int:
    """Print the table for `models` on the K=4 prompts of nano_eval and nano_cad; settings: those of the bench stage."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings = read_settings(load_config("bench", argv), BenchSettings)
    lines = []
    for folder in settings.models:
        variant = read_card(folder).get("variant", "paper")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for benchmark in (nano_eval.load(settings)[0], nano_cad.load(settings)[0]):
            judged = judge(model, tokenizer, benchmark.ranked, variant, settings.nano_eval.max_tokens)
            if not judged:
                raise InputError(f"{folder}: no trajectory that the strict parser reads")
            lines.append(line(folder, benchmark.name, judged, len(benchmark.ranked)))
    print("\n".join([HEAD, *lines]))
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
