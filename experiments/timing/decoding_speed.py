"""`make bench-speed`: time our code against other implementations, on one thread each.

- `cad`: the packed decoder against transformers' `generate(guidance_scale, negative_prompt_ids)`, on random weights and
  8 questions with passages of 1,500 tokens. transformers takes one alpha per call, so it reads each passage once for
  each of the 4 alphas. Batching its questions is not faster on one CPU thread.
- `evidence`: the evidence reward against the fastest use of difflib (one matcher for each reference).
- `cad_real`: like `cad`, with the model of the small profile (`make model PROFILE=small`) and 4 of its test questions.
- `cad_vllm`, `cad_vllm_short`: like `cad`, with coupled requests on vLLM (`make test-vllm`). The second has passages of
  500 tokens.

The two times of a pair are measured one directly after the other. A warm-up before them is not counted. A ratio is the
median over the pairs.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer

from experiments.timing.pairs import TimedPairs, share_different, table, time_in_turn
from rag_zeval.errors import InputError
from rag_zeval.streams import command_line

NEW_TOKENS = 64
ALPHAS = (0.0, -0.5, -1.0, -1.4)
SMALL = {  # a model shape that is small enough for a CPU
    "vocab_size": 8000,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 768,
}


Decode = Callable[..., Any]  # takes the token ids of both streams, alphas and the number of new tokens


class Prompts(NamedTuple):
    """Token ids of the same questions, with and without their passages."""

    with_passage: list[list[int]]
    without_passage: list[list[int]]


def random_qwen2(shape: dict[str, int] = SMALL, device: str = "cpu", dtype: str = "float32") -> Any:
    """Return a Qwen2 of this shape (keys of its config) with random weights. It has no end-of-text token."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(**shape, tie_word_embeddings=False, eos_token_id=None)
    with torch.device(device):  # made on the device: a second copy of 7B may not fit
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval().requires_grad_(False)
    for weights in model.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.05)
    return model


def random_prompts(questions: int, passage_tokens: int, vocabulary: int = SMALL["vocab_size"]) -> Prompts:
    rng = random.Random(1)
    without = [[rng.randrange(3, vocabulary) for _ in range(rng.randrange(24, 40))] for _ in range(questions)]
    return Prompts([[rng.randrange(3, vocabulary) for _ in range(passage_tokens)] + one for one in without], without)


def our_answers(decode: Decode, prompts: Prompts, new_tokens: int) -> list[list[int]]:
    """Return the token ids for each question and alpha from one of our decoders, in one call."""
    answers = decode(*prompts, ALPHAS, new_tokens, stops=())
    return [list(response.ids) for responses in answers for response in responses]


def guided_answers(model: Any, prompts: Prompts, new_tokens: int) -> list[list[int]]:
    """Return the same from transformers' guidance, with one call for each question and alpha."""
    import torch

    answers = []
    for prompt, negative in zip(*prompts, strict=True):
        ids, negative_ids = (torch.tensor([tokens], device=model.device) for tokens in (prompt, negative))
        settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": new_tokens, "pad_token_id": 0}
        for alpha in ALPHAS:
            guidance = {"guidance_scale": 1 + alpha, "negative_prompt_ids": negative_ids} if alpha else {}
            out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings, **guidance)
            answers.append(out[0, len(prompt) :].tolist())
    return answers


def packed(model: Any) -> Decode:
    """Return the packed decoder of a model."""
    from synthesize.cad import decode

    return partial(decode, model)


def cad(questions: int = 8, passage_tokens: int = 1500, new_tokens: int = NEW_TOKENS, pairs: int = 5) -> TimedPairs:
    model = random_qwen2()
    return against_guidance("cad", model, packed(model), random_prompts(questions, passage_tokens), new_tokens, pairs)


def cad_real(questions: int = 4, new_tokens: int = NEW_TOKENS) -> TimedPairs:
    model, prompts = small_profile(questions)
    return against_guidance("cad_real", model, packed(model), prompts, new_tokens, pairs=3)


def cad_vllm(name: str = "cad_vllm", passage_tokens: int = 1500) -> TimedPairs:
    from synthesize.vllm_cad import VLLMDecoder

    model = random_qwen2()
    prompts = random_prompts(8, passage_tokens)
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        decoder = VLLMDecoder(folder, "float32", max_model_len=2048, enforce_eager=True)

        def decode(*arguments: Any, **settings: Any) -> Any:
            decoder.forget()  # else the prefix cache still holds the passages of the last pair
            return decoder.decode(*arguments, **settings)

        return against_guidance(name, model, decode, prompts, NEW_TOKENS, pairs=5)


def against_guidance(
    name: str, model: Any, decode: Decode, prompts: Prompts, new_tokens: int, pairs: int
) -> TimedPairs:
    import torch

    torch.set_num_threads(1)
    guided = partial(guided_answers, model, prompts, new_tokens)
    return time_in_turn(name, guided, partial(our_answers, decode, prompts, new_tokens), share_different, pairs)


def small_profile(questions: int) -> tuple[Any, Prompts]:
    """Return the model of the small profile, and the prompts of its first test questions."""
    from omegaconf import OmegaConf
    from transformers import AutoModelForCausalLM

    from rag_zeval.models.folder import loading
    from rag_zeval.stages.config import check_settings, load_config
    from synthesize.jobs import JobReader
    from synthesize.settings import Settings
    from synthesize.sources import Tally, load_questions

    words = ["profile=small", "split=test", f"n_questions={questions}", "out_dir=unused"]
    config: Any = OmegaConf.to_container(load_config("synthesize", words), resolve=True)
    settings = check_settings(Settings, config)
    reader = JobReader(settings)
    jobs = [reader.read(question) for question in load_questions(settings, Tally(), lambda question: False)]
    with loading(settings.model) as path:
        model = AutoModelForCausalLM.from_pretrained(path, dtype="float32").eval()
    model.generation_config.eos_token_id = None  # both sides write all tokens
    return model, Prompts([job.with_passage for job in jobs], [job.without_passage for job in jobs])


def evidence(references: int = 32, quotes: int = 120, pairs: int = 5) -> TimedPairs:
    """Time suffix automata against difflib: both find the longest run that each quote shares with its reference.

    The automata are built again in each pair. A reference has 6,000 tokens that follow Zipf's law, as in natural text.
    A quote is 40 tokens of it. In every second quote one token is replaced.
    """
    from difflib import SequenceMatcher

    from rag_zeval.judge.evidence import ReferenceIndex

    rng = random.Random(0)
    weights = [1 / (rank + 2.7) for rank in range(8000)]
    cases: list[tuple[list[int], list[list[int]]]] = []
    for _ in range(references):
        reference = rng.choices(range(8000), weights, k=6000)
        starts = [rng.randrange(6000 - 40) for _ in range(quotes)]
        quoted = [reference[start : start + 40] for start in starts]
        for quote in quoted[1::2]:
            quote[rng.randrange(10, 30)] = rng.randrange(8000)
        cases.append((reference, quoted))

    def automata() -> list[int]:
        indexed = ((ReferenceIndex(reference), quoted) for reference, quoted in cases)
        return [index.longest_common_span(quote) for index, quoted in indexed for quote in quoted]

    def matchers() -> list[int]:
        longest = []
        for reference, quoted in cases:
            matcher = SequenceMatcher(None, (), reference, autojunk=False)
            for quote in quoted:
                matcher.set_seq1(quote)
                longest.append(matcher.find_longest_match().size)
        return longest

    return time_in_turn("evidence", matchers, automata, share_different, pairs)


MEASUREMENTS: dict[str, Callable[[], TimedPairs]] = {
    "cad": cad,
    "evidence": evidence,
    "cad_real": cad_real,
    "cad_vllm": cad_vllm,
    "cad_vllm_short": partial(cad_vllm, "cad_vllm_short", passage_tokens=500),
}


def known(names: list[str]) -> list[str]:
    for name in names:
        if name not in MEASUREMENTS:
            raise InputError(f"unknown measurement '{name}'; choose from: {', '.join(MEASUREMENTS)}")
    return names


Names = Annotated[list[str], typer.Argument(callback=known, help="The measurements to run.")]


def decoding_speed(names: Names = ["cad", "evidence"]) -> None:  # noqa: B006 - typer shows it as the default
    print(table([MEASUREMENTS[name]() for name in names], "theirs"))


main = command_line(decoding_speed, "experiments.timing.decoding_speed", __doc__)

if __name__ == "__main__":
    sys.exit(main())
