"""`python -m experiments.nano_threshold models=[FOLDER, ...]`: could a shifted verdict threshold explain a gain?

Each verdict of a nano judge's greedy trajectories is taken back to its margin, logit("true") - logit("false"), and
decided again at every threshold. The best threshold is chosen on the very prompts it is measured on: nothing that only
shifts the threshold does better. AUC, the area under the ROC curve, says how well margins tell true claims from false
ones, whatever the threshold. The table is that of docs/nano-results.md; the settings are those of the bench stage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

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
from rag_zeval.stages.world import RankedExample
from rag_zeval.streams import exit_status

BATCH = 64
HEADS = """\
| model | benchmark | AUC of the margins | ranking | ranking, best threshold | threshold | prompts read |
|---|---|---|---|---|---|---|"""


class Claim(NamedTuple):
    """The candidate that states it, whether it is true (None: not readable), and its verdict's margin."""

    candidate: int
    true: bool | None
    margin: float


class JudgedPrompt(NamedTuple):
    example: RankedExample
    claims: list[Claim]

    def ranked(self, threshold: float) -> bool:
        """Whether the candidates are strictly in their true order with verdicts `margin > threshold`."""
        verdicts: list[list[bool]] = [[] for _ in self.example.answers]
        for claim in self.claims:
            verdicts[claim.candidate].append(claim.margin > threshold)
        scores = [sum(of) / len(of) if of else None for of in verdicts]
        return strictly_ranked(scores, self.example.true_support)


def judge(
    model: Any, tokenizer: Any, examples: Sequence[RankedExample], variant: str, max_tokens: int
) -> list[JudgedPrompt]:
    """Greedy trajectories and their margins, without those that the strict parser does not read.

    Raises InputError for a model that does not write each verdict as one token.
    """
    from rag_zeval.models.decoding import generate, stop_ids

    eos, judged = stop_ids(model, tokenizer), []
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        asked = [judge_messages(variant, e.question.question, e.question.passage, e.answers) for e in batch]
        prompts = [chat_ids(tokenizer, messages) for messages in asked]
        replies = [tokens for tokens, _ in generate(model, prompts, max_tokens, eos=eos, pad=eos[0])]
        margins = verdict_margins(model, tokenizer, prompts, replies)
        for example, reply, of_reply in zip(batch, replies, margins, strict=True):
            text = tokenizer.decode(reply, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            try:
                trajectory = parse_strict(text, len(example.answers), variant)
            except FormatError:
                continue
            stated = [(at, claim) for at, candidate in enumerate(trajectory) for claim in candidate.atomic_claims]
            if [claim.is_supported for _, claim in stated] != [margin > 0 for margin in of_reply]:
                raise InputError("this model does not write its verdicts as the tokens 'true' and 'false'")
            claims = [
                Claim(at, world.claim_is_true(claim.claim, example.question.facts), margin)
                for (at, claim), margin in zip(stated, of_reply, strict=True)
            ]
            judged.append(JudgedPrompt(example, claims))
    return judged


def verdict_margins(
    model: Any, tokenizer: Any, prompts: Sequence[list[int]], replies: Sequence[list[int]]
) -> list[list[float]]:
    """For each reply, logit("true") - logit("false") wherever one of these tokens was written."""
    import torch

    false, true = tokenizer.convert_tokens_to_ids(["false", "true"])
    rows = [torch.tensor(prompt + reply) for prompt, reply in zip(prompts, replies, strict=True)]
    with torch.inference_mode():
        logits = model(input_ids=torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.device)).logits
        margins = (logits[..., true] - logits[..., false]).float().tolist()
    return [
        [of_row[len(prompt) + at - 1] for at, token in enumerate(reply) if token in (false, true)]
        for of_row, prompt, reply in zip(margins, prompts, replies, strict=True)
    ]


def best_threshold(judged: Sequence[JudgedPrompt], steps: int = 200) -> float:
    """The threshold, of 0 and `steps` quantiles of all margins, with the highest ranking accuracy."""
    import numpy as np

    margins = [claim.margin for prompt in judged for claim in prompt.claims]
    tried = [0.0, *np.quantile(margins, np.linspace(0, 1, steps)).tolist()]
    return max(tried, key=lambda threshold: sum(prompt.ranked(threshold) for prompt in judged))


def auc(judged: Sequence[JudgedPrompt]) -> float:
    """Chance that a true claim's margin is above a false one's: Mann-Whitney's U / (true claims x false claims)."""
    from scipy.stats import mannwhitneyu

    claims = [claim for prompt in judged for claim in prompt.claims]
    true, false = ([claim.margin for claim in claims if claim.true is wanted] for wanted in (True, False))
    return float(mannwhitneyu(true, false).statistic) / (len(true) * len(false))


def main(argv: Sequence[str]) -> int:
    """Print the table for `models` on the K=4 prompts of nano_eval and nano_cad."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings = read_settings(load_config("bench", argv), BenchSettings)
    print(HEADS)
    for folder in settings.models:
        variant = read_card(folder).get("variant", "paper")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for benchmark in (nano_eval.load(settings)[0], nano_cad.load(settings)[0]):
            judged = judge(model, tokenizer, benchmark.ranked, variant, settings.nano_eval.max_tokens)
            if not judged:
                raise InputError(f"{folder}: no trajectory that the strict parser reads")
            best = best_threshold(judged)
            at_0, at_best = (sum(one.ranked(at) for one in judged) / len(judged) for at in (0.0, best))
            numbers = f"{auc(judged):.3f} | {at_0:.3f} | {at_best:.3f} | {best:+.2f}"
            print(f"| {folder} | {benchmark.name} | {numbers} | {len(judged)} of {len(benchmark.ranked)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
