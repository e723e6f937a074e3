"""Batched decoding against decoding token by token: the same tokens whatever the drafts, the neighbours, the limits."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)
from transformers.cache_utils import DynamicLayer  # noqa: E402
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper  # noqa: E402

from rag_zeval.errors import InputError  # noqa: E402
from rag_zeval.judge.prompt import judge_messages  # noqa: E402
from rag_zeval.models import decoding  # noqa: E402
from rag_zeval.models.decoding import GrowingLayer, _inverse_cdf, _truncated, generate  # noqa: E402
from rag_zeval.models.drafting import Drafts  # noqa: E402
from rag_zeval.models.language_model import chat_ids  # noqa: E402
from rag_zeval.stages.world import ranked_examples  # noqa: E402

VOCABULARY = 60
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.5,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
NANO_BASE = Path(__file__).parents[3] / "checkpoints" / "nano-base"


def random_model(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module")
def model():
    return random_model(LlamaConfig(**SIZES))


@pytest.fixture(scope="module")
def prompts():
    rng = torch.Generator().manual_seed(1)
    return [torch.randint(1, VOCABULARY, (n,), generator=rng).tolist() for n in (3, 11, 7, 20, 1)]


def transformers_greedy(model, prompt, limit, eos):
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=limit,
        eos_token_id=eos,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


@torch.inference_mode()
def one_by_one(model, prompt, limit, *, eos, seed=None, grammar=None, temperature=0.0, top_p=1.0, top_k=-1):
    """Tokens and log-probabilities of one row, each from a pass over all the text so far, without a cache."""
    text, logprobs = list(prompt), []
    uniform = torch.rand(limit, generator=torch.Generator().manual_seed(seed or 0), dtype=torch.float64)
    for number in uniform:
        logits = model(torch.tensor([text])).logits[0, -1].float()
        for token in range(VOCABULARY) if grammar else ():
            if not grammar.allows(text[len(prompt) :], token):
                logits[token] = -torch.inf
        if temperature > 0:
            logits = logits / temperature
            kept = _truncated(logits[None], top_p, top_k)[0].double().softmax(-1)
            token = int((kept.cumsum(-1) <= number * kept.sum()).sum())
        else:
            token = int(logits.argmax())
        text.append(token)
        logprobs.append(float(logits.log_softmax(-1)[token]))
        if token in eos:
            break
    return text[len(prompt) :], logprobs


def assert_same(found, expected):
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    for (_, ours), (_, theirs) in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), atol=2e-4, rtol=0)


rows = st.lists(  # prompts drawn from a few, so that some are the same, and from few tokens, so that they repeat
    st.tuples(
        st.lists(st.integers(1, 6), min_size=1, max_size=12)
        | st.sampled_from([[7], [8, 9, 8, 9], [10, 11, 12, 10]])
        | st.lists(st.integers(1, 2), max_size=8).map([8, 9, 8, 9, 10, 11].__add__),  # others have the same beginning
        st.integers(1, 24),
        st.integers(0, 3),
        st.sampled_from([None, None, 2, 7]),  # of its grammar
    ),
    min_size=1,
    max_size=5,
)
samplings = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.3, 1.0, 1.7]),
        "top_p": st.sampled_from([0.5, 0.9]),
        "top_k": st.sampled_from([1, 5]),
    },
)
stops = st.sets(st.integers(0, VOCABULARY - 1), max_size=4)


class Rhythm:
    """A grammar in which the sum of two neighbours is no multiple of `step`, and token 3 comes at every fifth place."""

    def __init__(self, step: int):
        self.step, self.text = step, []

    def allows(self, text: list[int], token: int) -> bool:
        return token == 3 if len(text) % 5 == 4 else not text or (text[-1] + token) % self.step != 0

    def fitting(self, tokens: list[int]) -> int:
        fits = (self.allows(self.text + tokens[:at], token) for at, token in enumerate(tokens))
        return next((at for at, fit in enumerate(fits) if not fit), len(tokens))

    def masks(self, tokens: list[int]) -> list[bytes]:
        texts = (self.text + tokens[:at] for at in range(len(tokens) + 1))
        allowed = ([self.allows(text, token) for token in range(VOCABULARY)] for text in texts)
        return [np.packbits(bits, bitorder="little").tobytes() for bits in allowed]

    def extend(self, tokens: list[int]) -> None:
        assert self.fitting(tokens) == len(tokens)
        self.text += tokens


class Hostile:
    """Drafts of what will come, but wrong where told so, and going on beyond limits and stop tokens."""

    def __init__(self, expected: list[list[int]], data: st.DataObject):
        self.expected, self.data = expected, data
        self.done = [0] * len(expected)

    def propose(self, rows, most):
        drafts = []
        for row in rows:
            right = (self.expected[row] + [1, 2, 3, 4, 5] * 4)[self.done[row] :]
            length = self.data.draw(st.integers(0, most))
            wrong = self.data.draw(st.sets(st.integers(0, most), max_size=2))
            drafts.append([(token + (at in wrong)) % VOCABULARY for at, token in enumerate(right[:length])])
        return drafts

    def accept(self, row, tokens):
        self.done[row] += len(tokens)


@pytest.mark.parametrize("hostile", [False, True])
@settings(max_examples=40)
@given(rows, samplings, stops, st.data())
def test_equals_decoding_token_by_token_whatever_the_drafts(model, hostile, rows, sampling, eos, data):
    prompts, limits, seeds, steps = zip(*rows, strict=True)
    grammars = [step and Rhythm(step) for step in steps]
    expected = [
        one_by_one(model, p, limit, seed=s, eos=eos, grammar=grammar, **sampling)
        for (p, limit, s, _), grammar in zip(rows, grammars, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patched:
        if hostile:
            hostile_drafts = Hostile([tokens for tokens, _ in expected], data)
            patched.setattr(decoding, "Drafts", lambda prompts, device: hostile_drafts)
        found = generate(model, prompts, limits, seeds=seeds, grammars=grammars, eos=eos, **sampling)
        assert_same(found, expected)


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 61, "initializer_range": 0.5}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SIZES, attn_implementation="eager"),
        MistralConfig(**SIZES, sliding_window=6),
        Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=6, max_window_layers=1),
        GPT2Config(vocab_size=VOCABULARY, bos_token_id=None, eos_token_id=None, **GPT2),
    ],
    ids=lambda config: config.model_type,
)
def test_greedy_equals_transformers_for_other_kinds_of_attention_and_position(config, prompts):
    """To the last position that GPT-2 has: drafts beyond it must not be looked up in its table."""
    other = random_model(config)
    limits = [61 - len(prompt) for prompt in prompts]
    found = [tokens for tokens, _ in generate(other, prompts, limits, eos=[])]
    expected = [transformers_greedy(other, p, limit, None) for p, limit in zip(prompts, limits, strict=True)]
    assert found == expected and len(set(found[0])) > 2


def test_a_model_with_another_kind_of_attention_is_refused(prompts):
    config = Qwen2Config(**SIZES)
    other = random_model(config)
    other.config.layer_types = ["full_attention", "chunked_attention"]
    with pytest.raises(InputError, match="needs full or sliding attention in every layer"):
        generate(other, prompts, 3, eos=[])


@pytest.fixture(scope="module")
def nano():
    tokenizer = AutoTokenizer.from_pretrained(NANO_BASE)
    asked = ranked_examples("dev", 2, 3, seed=7)
    messages = [judge_messages("compact", e.question.question, e.question.passage, e.answers) for e in asked]
    model = AutoModelForCausalLM.from_pretrained(NANO_BASE, dtype=torch.float32).eval()
    return model, [chat_ids(tokenizer, each) for each in messages], [tokenizer.eos_token_id]


@pytest.fixture
def passes(monkeypatch):
    """`[rows, tokens]` of all passes over new tokens; in each, attention is not cuDNN's."""
    seen, real = [], decoding._forward

    def forward(model, cache, rows, ids, positions, logits_to_keep=0):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        if logits_to_keep == 0:
            seen.append(tuple(ids.shape))
        return real(model, cache, rows, ids, positions, logits_to_keep)

    monkeypatch.setattr(decoding, "_forward", forward)
    return seen


def test_the_shipped_judge_needs_a_pass_for_several_tokens(nano, passes):
    model, prompts, eos = nano
    before = torch.backends.cuda.cudnn_sdp_enabled()
    found = [tokens for tokens, _ in generate(model, prompts, 640, eos=eos)]
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
    assert found == [transformers_greedy(model, prompt, 640, eos) for prompt in prompts]
    assert sum(map(len, found)) > 2.5 * sum(rows for rows, _ in passes)


def test_samples_of_one_prompt_draft_from_each_other(nano, passes):
    model, prompts, eos = nano
    found = generate(model, prompts[:1] * 4, 640, temperature=1.0, seeds=range(4), eos=eos)
    first = next(at for at, (rows, _) in enumerate(passes) if rows > 1)
    assert all(rows == 1 for rows, _ in passes[:first])
    per_pass = len(found[0][0]) / first
    assert sum(len(tokens) for tokens, _ in found[1:]) / sum(rows for rows, _ in passes[first:]) > 1.5 * per_pass


def test_a_large_vocabulary_makes_chunks_short(nano, passes, monkeypatch):
    model, prompts, eos = nano
    expected = generate(model, prompts, 100, eos=eos)
    assert max(tokens for _, tokens in passes) > 3
    passes.clear()
    monkeypatch.setattr(decoding, "LOGITS", 3 * 2 * model.config.vocab_size)
    assert_same(generate(model, prompts, 100, eos=eos), expected)
    assert max(rows * tokens for rows, tokens in passes) == 6
    passes.clear()
    monkeypatch.setattr(decoding, "LOGITS", 1)
    assert_same(generate(model, prompts, 30, eos=eos), [(t[:30], values[:30]) for t, values in expected])
    assert {tokens for _, tokens in passes} == {1}


def test_prompts_read_a_few_at_a_time_are_read_the_same(model, prompts, monkeypatch):
    expected = generate(model, prompts, 20, eos=[])
    monkeypatch.setattr(decoding, "PREFILL", 40)
    assert_same(generate(model, prompts, 20, eos=[]), expected)


@pytest.fixture
def read(monkeypatch):
    """The tokens of each pass that reads prompts, with padding."""
    seen, real = [], decoding._forward

    def forward(model, cache, rows, ids, positions, logits_to_keep=0):
        seen.append(ids.numel() * bool(logits_to_keep))
        return real(model, cache, rows, ids, positions, logits_to_keep)

    monkeypatch.setattr(decoding, "_forward", forward)
    return seen


def test_prompts_of_similar_length_are_read_together(model, read, monkeypatch):
    monkeypatch.setattr(decoding, "PREFILL", 60)  # two of the long ones at once
    short, long = [[at, 1, 2] for at in range(2)], [[at, *range(30)] for at in range(2)]
    generate(model, [long[0], short[0], long[1], short[1]], 1, eos=[])
    assert sum(read) == 2 * 2 + 2 * 30


def test_the_same_beginning_of_several_prompts_is_read_once(model, read):
    beginning = list(range(1, 21))
    prompts = [[*beginning, 30, 31], [40, 41], [*beginning, 32, 33], [*beginning[:5], 50], [*beginning, 30, 34]]
    generate(model, prompts, 1, eos=[])
    beginnings, rests = 3 * len(beginning), 5 * 1  # in rows as long as the longest
    assert sum(read) == beginnings + rests


def test_the_cache_is_gone_with_the_last_token(model, prompts, monkeypatch):
    """Not when the garbage collector comes by: keys and values may be most of a GPU's memory."""
    caches, real = [], decoding.RowCache.__init__

    def init(self, *args):
        real(self, *args)
        caches.append(weakref.ref(self))

    monkeypatch.setattr(decoding.RowCache, "__init__", init)
    gc.disable()
    try:
        generate(model, prompts, 5, eos=[])
        assert len(caches) > 1 and not any(cache() for cache in caches)
    finally:
        gc.enable()


@pytest.mark.parametrize(("top_p", "top_k"), [(0.9, -1), (0.5, -1), (1.0, 5), (0.8, 10)])
def test_truncation_keeps_what_transformers_keeps(top_p, top_k):
    logits = torch.randn(20, VOCABULARY, generator=torch.Generator().manual_seed(2))
    logits *= torch.linspace(0.5, 20, 20)[:, None]  # from undecided to certain
    expected = logits
    if top_k > 0:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(None, expected)
    assert torch.equal(_truncated(logits, top_p, top_k).isinf(), expected.isinf())


@settings(deadline=None)
@given(st.integers(1, 700), st.integers(0, 2**32), st.integers(1, 50), st.floats(0.1, 20))
def test_a_token_is_drawn_where_the_textbooks_cumulated_probabilities_pass_the_number(vocabulary, seed, left, spread):
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, vocabulary, generator=random) * spread
    outside = torch.randperm(vocabulary, generator=random)[left:]
    logits[:, outside] = -torch.inf  # as top-p and top-k leave them
    numbers = torch.rand(5, generator=random, dtype=torch.float64)
    numbers[3:] = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)  # the least and the most that is drawn
    ends = logits.double().softmax(-1).cumsum(-1)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    for row, token in enumerate(_inverse_cdf(weights, numbers).tolist()):
        assert logits[row, token] > -torch.inf
        start = ends[row, token - 1] if token else 0.0
        assert start - 1e-5 <= numbers[row] <= ends[row, token] + 1e-5


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}, {"temperature": 1.0, "top_p": 0.9, "top_k": 6}])
def test_it_does_not_matter_how_many_tokens_are_chosen_at_once(model, monkeypatch, settings):
    prompts = [[1, 5, 6, 5, 6, 5], [1, 5, 6, 5, 6, 5], [1, 7, 8, 9]]
    found = []
    for at_once in (2**21, 7 * VOCABULARY, 1):
        monkeypatch.setattr(decoding, "CHOSEN", at_once)
        found.append(generate(model, prompts, 24, seeds=[3, 4, 5], eos=[2], **settings))
    assert found[0] == found[1] == found[2]


def test_sampling_without_seeds_is_refused(model):
    with pytest.raises(ValueError, match="seed"):
        generate(model, [[1]], 1, temperature=1.0, eos=[])


@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.integers(0, 3))
def test_a_growing_layer_holds_what_a_dynamic_one_does(lengths, kept):
    ours, theirs = GrowingLayer(), DynamicLayer()
    for at, length in enumerate(lengths):
        keys, values = torch.full((2, 4, 1, length, 2), float(at))
        keys, values = keys + torch.arange(4.0)[:, None, None, None], values - 1
        for found, expected in zip(ours.update(keys, values), theirs.update(keys, values), strict=True):
            assert torch.equal(found, expected)
    ours.keep(torch.tensor([kept]))
    assert torch.equal(ours.keys, theirs.keys[kept : kept + 1]) and torch.equal(ours.values, theirs.values[[kept]])


def test_drafts_are_shorter_where_more_rows_pay_for_them() -> None:
    """Beside rows without a draft, each step of a row's draft costs a token in every row."""
    known = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1]  # 1 was followed by 2, 3, ...

    def drafted(rows: int, device: str) -> int:
        drafts = Drafts([known, *([20 + row] for row in range(rows - 1))], device)
        return len(drafts.propose(range(rows), 9)[0])

    alone, among_2, among_8 = (drafted(rows, "cpu") for rows in (1, 2, 8))
    assert alone > among_2 > among_8
    assert drafted(8, "cuda") > among_8
