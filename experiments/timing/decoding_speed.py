"""`make bench-speed`: time our code against other implementations, in one run, on one thread each.

`cad`: the packed decoder against transformers' `generate(guidance_scale, negative_prompt_ids)`. The input is 8
questions with passages of 1,500 tokens and 4 alphas; answers have 64 tokens; the model is a random Qwen2 with 8 layers
of 256. transformers decodes one question and one alpha per call. `guidance_scale` is one number per call, so it reads
the passage again for each alpha, whatever is batched. Batching the questions of one alpha gives the same tokens and, on
one CPU thread, is not faster.

`cad_real`: the same with the model of the small profile (`make model PROFILE=small`), on 4 real questions of its test
split.

`cad_limit`: on 8 of these questions, the packed decoder against greedy decoding of each branch by itself. The ratio is
the share of the speed that is left when branches are mixed.

`cad_vllm`: as `cad`, but our side is vLLM with coupled requests (`make test-vllm`). Its prefix cache is emptied before
each timing. `cad_vllm_short` has passages of 500 tokens. Both sides need the same time to read a passage; our side
reads it once, transformers once for each of 4 alphas. So the longer the passage, the closer the ratio comes to 4.

`evidence`: the suffix automaton of `rag_zeval.judge.evidence`, including the time to build its index, against difflib
at its fastest (`SequenceMatcher(autojunk=False).find_longest_match`, with the reference as the second sequence, whose
index it keeps for all spans). The input is 256 rollouts with 15 spans each, on 32 references of 6,000 tokens.

Each pair of times is taken back to back, after a warm-up that is not counted. The ratio is the median over the pairs.
Each measurement appends one entry to `runs/speed/summary.json`: `{name, ratio, ours_s, theirs_s, equal, difference,
pairs}`, with medians in seconds. Answers may differ only where the two best mixed logits are within 1e-4
(`difference`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from omegaconf import OmegaConf

from experiments.timing.guidance import (
    ALPHAS,
    SMALL,
    Tokens,
    guided_answers,
    packed_answers,
    random_prompts,
    random_qwen2,
    widest_tie,
)
from experiments.timing.pairs import Entry, append, compare
from rag_zeval.errors import InputError
from rag_zeval.streams import exit_status, run_command

PAIRS = 5


def measure_cad(**sizes: int) -> Entry:
    """Packed decoder against transformers' guidance; equal: every answer the same, but for ties."""
    from synthesize.cad import decode

    model = random_qwen2(SMALL)
    return _against_guidance("cad", model, partial(decode, model), **sizes)


def measure_cad_real(questions: int = 4, new_tokens: int = 64, pairs: int = 3) -> Entry:
    """Packed decoder against transformers' guidance, on real questions."""
    from synthesize.cad import decode

    model, prompts, without = _real(questions)
    return _compared("cad_real", model, partial(decode, model), prompts, without, new_tokens, pairs)


def measure_cad_limit(questions: int = 8, new_tokens: int = 64, pairs: int = PAIRS) -> Entry:
    """Both streams' branches, each its own way, against the packed decoder; equal says nothing here."""
    from synthesize.cad import decode

    model, with_passage, without_passage = _real(questions)

    def packed() -> Any:
        return decode(model, with_passage, without_passage, ALPHAS, new_tokens, ())

    def uncoupled() -> Any:
        """As many branches as the packed decoder has in each stream, each of them alone."""
        branches = [sum(bool(weight) for weight in weights) for weights in ((1 + a for a in ALPHAS), ALPHAS)]
        return [
            decode(model, prompts, without_passage, [0.0] * n, new_tokens, ())
            for prompts, n in zip((with_passage, without_passage), branches, strict=True)
        ]

    return compare("cad_limit", packed, uncoupled, lambda first, second: 0.0, pairs)


def _real(questions: int) -> tuple[Any, Tokens, Tokens]:
    """The small profile's model, and the prompts of its first held-out questions with and without their passages."""
    import torch
    from transformers import AutoModelForCausalLM

    from rag_zeval.stages.config import load_config
    from synthesize.jobs import JobReader, model_path
    from synthesize.settings import read_settings
    from synthesize.sources import Tally, load_questions

    words = ["profile=small", "split=test", f"n_questions={questions}", "out_dir=unused"]
    config: Any = OmegaConf.to_container(load_config("synthesize", words), resolve=True)
    settings = read_settings(config)
    reader = JobReader(settings)
    jobs = [reader.read(question) for question in load_questions(settings, Tally(), lambda question: False)]
    with model_path(settings) as path:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # both sides write all tokens, as random weights do
    torch.set_num_threads(1)
    return model, [job.with_passage for job in jobs], [job.without_passage for job in jobs]


def measure_cad_vllm(**sizes: int) -> Entry:
    """vLLM with coupled requests against transformers' guidance; no pair may be left over. Needs vLLM."""
    from synthesize.vllm_cad import VLLMDecoder

    model = random_qwen2(SMALL)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        decoder = VLLMDecoder(folder, "float32", max_model_len=2048, enforce_eager=True, enable_prefix_caching=True)

        def decode(*arguments: Any, **settings: Any) -> Any:
            decoder.forget()  # a prompt read in the pair before must be read again
            return decoder.decode(*arguments, **settings)

        return _against_guidance("cad_vllm", model, decode, **sizes)


def _against_guidance(
    name: str,
    model: Any,
    decode: Callable[..., Any],
    questions: int = 8,
    passage_tokens: int = 1500,
    new_tokens: int = 64,
    pairs: int = PAIRS,
) -> Entry:
    import torch

    torch.set_num_threads(1)
    prompts, without = random_prompts(SMALL["vocab_size"], questions, passage_tokens)
    return _compared(name, model, decode, prompts, without, new_tokens, pairs)


def _compared(
    name: str, model: Any, decode: Callable[..., Any], prompts: Tokens, without: Tokens, new_tokens: int, pairs: int
) -> Entry:
    ours = partial(packed_answers, decode, prompts, without, new_tokens)
    theirs = partial(guided_answers, model, prompts, without, new_tokens)
    return compare(name, ours, theirs, partial(widest_tie, model, prompts, without), pairs)


def measure_evidence(references: int = 32, rollouts: int = 8, spans: int = 15, pairs: int = PAIRS) -> Entry:
    """Suffix automaton against difflib; equal: the same longest run for every span.

    Token ids follow Zipf's law, as those of text do; a span is 40 tokens of its reference, every second one with a
    token in the middle replaced.
    """
    from difflib import SequenceMatcher

    from rag_zeval.judge.evidence import ReferenceIndex

    cases = _evidence_cases(references, rollouts * spans)

    def ours() -> list[int]:
        automata = ((ReferenceIndex(reference), quotes) for reference, quotes in cases)
        return [automaton.longest_common_span(quote) for automaton, quotes in automata for quote in quotes]

    def theirs() -> list[int]:
        longest = []
        for reference, quotes in cases:
            matcher = SequenceMatcher(None, (), reference, autojunk=False)
            for quote in quotes:
                matcher.set_seq1(quote)
                longest.append(matcher.find_longest_match().size)
        return longest

    return compare("evidence", ours, theirs, lambda first, second: float(first != second), pairs)


def _evidence_cases(references: int, quotes: int) -> list[tuple[list[int], list[list[int]]]]:
    rng = random.Random(0)
    weights = [1 / (rank + 2.7) for rank in range(8000)]
    cases = []
    for _ in range(references):
        reference = rng.choices(range(8000), weights, k=6000)
        spans = []
        for number in range(quotes):
            start = rng.randrange(6000 - 40)
            span = reference[start : start + 40]
            if number % 2:
                span[rng.randrange(10, 30)] = rng.randrange(8000)
            spans.append(span)
        cases.append((reference, spans))
    return cases


VLLM: dict[str, Callable[[], Entry]] = {  # in an environment of its own, so only by name
    "cad_vllm": measure_cad_vllm,
    "cad_vllm_short": partial(measure_cad_vllm, passage_tokens=500),
}
REAL: dict[str, Callable[[], Entry]] = {  # need the model and the questions of the small profile
    "cad_real": measure_cad_real,
    "cad_limit": measure_cad_limit,
}
MEASUREMENTS: dict[str, Callable[[], Entry]] = {"cad": measure_cad, "evidence": measure_evidence}
ALL = MEASUREMENTS | REAL | VLLM


def main(argv: Sequence[str]) -> int:
    return run_command(decoding_speed, argv, "experiments.timing.decoding_speed", __doc__)


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in ALL:
            raise InputError(f"unknown measurement '{name}'; choose from: {', '.join(ALL)}")
    return names


Names = Annotated[list[str], typer.Argument(callback=_known, help="The measurements to run.")]


def decoding_speed(names: Names = [*MEASUREMENTS]) -> None:  # noqa: B006 - typer shows it as the default
    for name in names:
        result = ALL[name]()
        print(f"{name}: {result['ratio']:.2f} times as fast, results equal: {result['equal']}")
        append(result)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
