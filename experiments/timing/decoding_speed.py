"""`make bench-speed`: measurements of this code against its peers, taken in one run, one thread each.

`cad`: the packed decoder against transformers' `generate(guidance_scale, negative_prompt_ids)`, on 8 questions with
1,500-token passages, 4 alphas, 64 tokens, a random Qwen2 of 8 layers x 256. The peer decodes one question and one alpha
a call: `guidance_scale` is one number a call, so the passage is read again for each alpha whatever is batched; batching
the questions of one alpha gives the same tokens and, on one CPU thread, no speed.

`cad_vllm`: the same by vLLM with coupled requests, its prefix cache emptied before each time (`make test-vllm`);
`cad_vllm_short`: with 500-token passages. Reading a passage takes both as long, ours once and the peer four times, so
the longer it is, the nearer the ratio comes to 4.

`evidence`: the suffix automaton of `rag_zeval.judge.evidence`, index building included, against
`difflib.SequenceMatcher(None, reference, span, autojunk=False).find_longest_match`, on 256 rollouts x 15 spans of
6,000-token references (32 references x 8 rollouts), difflib called afresh for each span. `evidence_indexed`: the same
against difflib at its best, the reference as its second sequence, whose index it then keeps for all spans.

Each pair of times is taken back to back, the ratio is the median over the pairs. One entry per measurement is appended
to `runs/speed/summary.json`: `{name, ratio, ours_s, theirs_s, equal, pairs}` (seconds: medians).
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rag_zeval.files import write_json

SUMMARY = Path("runs/speed/summary.json")
PAIRS = 5
ALPHAS = (0.0, -0.5, -1.0, -1.4)
SMALL = {
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 768,
}
MARGIN = 1e-4  # answers may part only where the two best mixed logits are this close

Timed = Callable[[], Any]
Same = Callable[[Any, Any], bool]


def measure_cad(
    questions: int = 8, passage_tokens: int = 1500, new_tokens: int = 64, pairs: int = PAIRS
) -> dict[str, Any]:
    """Packed decoder against transformers' guidance; equal: every answer the same, token for token."""
    from synthesize.cad import decode

    model = random_qwen2(SMALL)
    return _against_guidance("cad", model, partial(decode, model), questions, passage_tokens, new_tokens, pairs)


def measure_cad_vllm(
    questions: int = 8, passage_tokens: int = 1500, new_tokens: int = 64, pairs: int = PAIRS
) -> dict[str, Any]:
    """vLLM with coupled requests against transformers' guidance; no pair may be left over. Needs vLLM."""
    from synthesize.vllm_cad import VLLMDecoder

    model = random_qwen2(SMALL)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        decoder = VLLMDecoder(folder, "float32", max_model_len=2048, enforce_eager=True, enable_prefix_caching=True)

        def decode(prompts: Any, without: Any, alphas: Sequence[float], limit: int, stops: Sequence[int]) -> Any:
            decoder.forget()  # a prompt read in the pair before must be read again
            return decoder.decode(prompts, without, alphas, limit, stops)

        return _against_guidance("cad_vllm", model, decode, questions, passage_tokens, new_tokens, pairs)


def _against_guidance(
    name: str, model: Any, decode: Callable[..., Any], questions: int, passage_tokens: int, new_tokens: int, pairs: int
) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    rng = random.Random(1)
    without = [[rng.randrange(3, 8000) for _ in range(rng.randrange(24, 40))] for _ in range(questions)]
    prompts = [[rng.randrange(3, 8000) for _ in range(passage_tokens)] + question for question in without]

    def ours() -> list[list[int]]:
        answers = decode(prompts, without, ALPHAS, new_tokens, stops=())
        return [list(response.ids) for responses in answers for response in responses]

    decode(prompts[:1], without[:1], ALPHAS, 2, stops=())  # the first calls pay for set-up
    model(torch.arange(64)[None])

    def theirs() -> list[list[int]]:
        return [
            guided(model, prompt, negative, alpha, new_tokens)
            for prompt, negative in zip(prompts, without, strict=True)
            for alpha in ALPHAS
        ]

    def same(first: list[list[int]], second: list[list[int]]) -> bool:
        asked = [(p, n, a) for p, n in zip(prompts, without, strict=True) for a in ALPHAS]
        return all(
            mine == other or _near_tie(model, *question, mine, other)
            for question, mine, other in zip(asked, first, second, strict=True)
        )

    return _measure(name, ours, theirs, same, pairs)


def random_qwen2(shape: dict[str, int], device: str = "cpu", dtype: str = "float32") -> Any:
    """A Qwen2 of this shape (keys of its config) with random weights, which never ends a text."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(**shape, tie_word_embeddings=False, eos_token_id=None)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))  # made where and as it is used: 7B parameters, once
    try:
        with torch.device(device):
            model = Qwen2ForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)
    for weights in model.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.05)
    return model


def guided(model: Any, prompt: Sequence[int], negative: Sequence[int], alpha: float, new_tokens: int) -> list[int]:
    """Token ids of one answer by transformers' own guidance, greedy."""
    import torch

    ids, without = (torch.tensor([list(tokens)], device=model.device) for tokens in (prompt, negative))
    guidance = {"guidance_scale": 1 + alpha, "negative_prompt_ids": without} if alpha else {}
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=new_tokens,
        pad_token_id=0,
        **guidance,
    )
    return out[0, len(prompt) :].tolist()


def _near_tie(
    model: Any, prompt: list[int], negative: list[int], alpha: float, mine: list[int], other: list[int]
) -> bool:
    """Whether two answers part where the two best mixed logits lie within MARGIN."""
    import torch

    shared = next(at for at, pair in enumerate(zip(mine, other, strict=True)) if pair[0] != pair[1])
    logits, without = (model(torch.tensor([ids + mine[:shared]])).logits[0, -1] for ids in (prompt, negative))
    best = ((1 + alpha) * logits - alpha * without).topk(2).values
    return bool(best[0] - best[1] <= MARGIN)


def measure_evidence(
    references: int = 32, rollouts: int = 8, spans: int = 15, pairs: int = PAIRS, indexed: bool = False
) -> dict[str, Any]:
    """Suffix automaton against difflib; equal: the same longest run for every span.

    Token ids follow Zipf's law, as those of text do; a span is 40 tokens of its reference, every second one with a
    token in the middle replaced. `indexed`: difflib at its best, with one matcher a reference.
    """
    from difflib import SequenceMatcher

    from rag_zeval.judge.evidence import ReferenceIndex

    cases = _evidence_cases(references, rollouts * spans)

    def ours() -> list[int]:
        automata = ((ReferenceIndex(reference), quotes) for reference, quotes in cases)
        return [automaton.longest_common_span(quote) for automaton, quotes in automata for quote in quotes]

    def theirs() -> list[int]:
        return [
            SequenceMatcher(None, reference, quote, autojunk=False).find_longest_match().size
            for reference, quotes in cases
            for quote in quotes
        ]

    def theirs_indexed() -> list[int]:
        found = []
        for reference, quotes in cases:
            matcher = SequenceMatcher(None, (), reference, autojunk=False)
            for quote in quotes:
                matcher.set_seq1(quote)
                found.append(matcher.find_longest_match().size)
        return found

    name, peer = ("evidence_indexed", theirs_indexed) if indexed else ("evidence", theirs)
    return _measure(name, ours, peer, lambda first, second: first == second, pairs)


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


def _measure(name: str, ours: Timed, theirs: Timed, same: Same, pairs: int) -> dict[str, Any]:
    times, equal = [], True
    for number in range(1, pairs + 1):
        started = time.perf_counter()
        first = ours()
        between = time.perf_counter()
        second = theirs()
        times.append({"ours_s": between - started, "theirs_s": time.perf_counter() - between})
        equal = equal and same(first, second)
        print(
            f"{name} {number}/{pairs}: ours {times[-1]['ours_s']:.2f} s, theirs {times[-1]['theirs_s']:.2f} s",
            flush=True,
        )
    return {
        "name": name,
        "ratio": median(pair["theirs_s"] / pair["ours_s"] for pair in times),
        "ours_s": median(pair["ours_s"] for pair in times),
        "theirs_s": median(pair["theirs_s"] for pair in times),
        "equal": equal,
        "pairs": times,
    }


MEASUREMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "cad": measure_cad,
    "cad_vllm": measure_cad_vllm,
    "cad_vllm_short": partial(measure_cad_vllm, passage_tokens=500),
    "evidence": measure_evidence,
    "evidence_indexed": partial(measure_evidence, indexed=True),
}


def main(names: Sequence[str]) -> int:
    if {"-h", "--help"} & set(names):
        print(f"usage: python -m experiments.timing.decoding_speed [{'] ['.join(MEASUREMENTS)}]\n\n{__doc__}", end="")
        return 0
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"error: no measurement {unknown[0]!r}; there is: {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    for name in names or [
        name for name in MEASUREMENTS if "vllm" not in name
    ]:  # those have an environment of their own
        entry = MEASUREMENTS[name]()
        print(f"{name}: {entry['ratio']:.2f} times as fast, results equal: {entry['equal']}")
        entries = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else []
        write_json(SUMMARY, [*entries, entry])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
