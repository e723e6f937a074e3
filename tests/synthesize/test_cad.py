"""The packed decoder against transformers' own guidance, token for token; and the memory that it takes."""

import weakref
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from rag_zeval.errors import InputError  # noqa: E402
from synthesize.answering import SHARE, cached_token_bytes, fitting_tokens, free_bytes, needed_bytes  # noqa: E402
from synthesize.cad import decode  # noqa: E402

ALPHAS = [0.0, -0.5, -1.0, -1.4]
NEW = 24


def oracle(model, with_passage, without_passage, alpha, stops):
    prompt, negative = torch.tensor([with_passage]), torch.tensor([without_passage])
    guidance = {"guidance_scale": 1 + alpha, "negative_prompt_ids": negative} if alpha else {}
    out = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=NEW,
        pad_token_id=0,
        eos_token_id=sorted(stops) or None,
        **guidance,
    )
    return out[0, prompt.shape[1] :].tolist()


@pytest.fixture(scope="module")
def check_against_oracle(same_but_for_ties):
    """Decodes, compares every answer with the oracle's, and returns the answers."""

    def check(model, prompts, stops=(), alphas=ALPHAS):
        answers = decode(model, *prompts, alphas, NEW, stops)
        for *pair, responses in zip(*prompts, answers, strict=True):
            assert [response.alpha for response in responses] == alphas
            for response in responses:
                expected = oracle(model, *pair, response.alpha, stops)
                assert same_but_for_ties(model, pair, response.alpha, expected, response.ids)
                assert response.finished == (response.ids[-1] in stops)
        return answers

    return check


@pytest.mark.parametrize("seed", range(5))
def test_equals_transformers_guidance_without_stops_and_with(check_against_oracle, random_model, random_prompts, seed):
    model, prompts = random_model(seed=seed), random_prompts(seed, 7)
    answers = check_against_oracle(model, prompts)
    assert all(len(response.ids) == NEW and not response.finished for row in answers for response in row)
    assert any(len({response.ids for response in row}) > 1 for row in answers), "alpha changes nothing: no test"
    frequencies = Counter(token for row in answers for response in row for token in response.ids[2:])
    answers = check_against_oracle(model, prompts, stops=[token for token, _ in frequencies.most_common(3)])
    lengths = {len(response.ids) for row in answers for response in row}
    assert len(lengths) > 2 and min(lengths) < NEW, "no answer stopped early: no test"


def test_probabilities_are_mixed_as_the_paper_prints_it(random_model, random_prompts):
    """Against the definition, step by step, with the whole text read again."""
    model, prompts = random_model(seed=2), random_prompts(2, 2)
    model.get_output_embeddings().weight.data.mul_(3)  # so that probabilities are far from even
    answers = decode(model, *prompts, ALPHAS, NEW, (), mixing="probabilities")
    assert [r.ids for row in answers for r in row] != [
        r.ids for row in decode(model, *prompts, ALPHAS, NEW, ()) for r in row
    ]
    for *pair, responses in zip(*prompts, answers, strict=True):
        for response in responses:
            for at, token in enumerate(response.ids):
                with torch.inference_mode():
                    texts = (torch.tensor([[*prompt, *response.ids[:at]]]) for prompt in pair)
                    given, alone = (model(text).logits[0, -1].float().softmax(-1) for text in texts)
                mixture = (1 + response.alpha) * given - response.alpha * alone
                assert mixture[token] >= mixture.max() - 1e-4


@pytest.mark.parametrize("kind, heads, groups", [("Llama", 4, 1), ("Llama", 2, 2), ("Qwen3", 4, 2)])
def test_other_models_and_head_groups(check_against_oracle, random_model, random_prompts, kind, heads, groups):
    check_against_oracle(random_model(kind, seed=1, heads=heads, groups=groups), random_prompts(3, 3))


@pytest.mark.parametrize("alphas", [[0.0], [-1.0], [0.0, -1.0], [0.5, -0.25], [-1.4, 0.0, -3.0]])
def test_any_alpha_list(check_against_oracle, random_model, random_prompts, alphas):
    check_against_oracle(random_model(seed=2), random_prompts(4, 3), stops=[5, 6], alphas=alphas)


def test_eager_attention_is_put_back(check_against_oracle, random_model, random_prompts):
    model = random_model(seed=3)
    model.set_attn_implementation("eager")
    check_against_oracle(model, random_prompts(5, 2))
    assert model.config._attn_implementation == "eager"


@pytest.mark.parametrize("own", [0, 3, None])
def test_answers_do_not_depend_on_the_batch_where_what_all_begin_with_is_read_once(random_model, random_prompts, own):
    """own: tokens behind the common beginning of the first prompt, which may be no more than it; None: none."""
    model, (with_passage, without_passage) = random_model(seed=8, groups=2), random_prompts(9, 4)
    beginning = [] if own is None else with_passage[0]
    prompts = [[*beginning, *prompt] for prompt in with_passage], [[*beginning, *prompt] for prompt in without_passage]
    prompts[0][0] = [*beginning, *with_passage[0][:own]]
    together, read = decode(model, *prompts, ALPHAS, NEW, [7]), []
    hook = model.register_forward_hook(
        lambda _, args, kwargs, out: read.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    decode(model, *prompts, ALPHAS, 1, [])
    hook.remove()
    saved = 6 * max(0, len(beginning) - 1)
    assert sum(rows * tokens for rows, tokens in read) <= sum(map(len, [*prompts[0], *prompts[1]])) - saved
    for *pair, responses in zip(*prompts, together, strict=True):
        [alone] = decode(model, *([prompt] for prompt in pair), ALPHAS, NEW, [7])
        assert [response.ids for response in alone] == [response.ids for response in responses]


def test_bfloat16_mixes_in_float32(random_model, random_prompts):
    model, prompts = random_model(seed=5).bfloat16(), random_prompts(7, 4)
    answers = decode(model, *prompts, ALPHAS, 1, stops=[])
    for *pair, responses in zip(*prompts, answers, strict=True):
        with torch.inference_mode():
            a, b = (model(torch.tensor([ids])).logits[0, -1].float() for ids in pair)
        assert [r.ids[0] for r in responses] == [int(((1 + alpha) * a - alpha * b).argmax()) for alpha in ALPHAS]


def test_sliding_window_is_refused(random_model):
    model = random_model(seed=6)
    model.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(InputError, match="full attention"):
        decode(model, [[1]], [[2]], ALPHAS, 4, [])


@pytest.fixture(scope="module")
def qwen(random_model):
    shape = {"hidden_size": 64, "intermediate_size": 160, "max_position_embeddings": 4096}
    return lambda layers, dtype, vocabulary=2000: random_model(
        layers=layers, heads=8, groups=4, vocab_size=vocabulary, **shape
    ).to(dtype)


@pytest.fixture(scope="module")
def small(qwen):
    return qwen(2, torch.float32)


class Peak(TorchDispatchMode):
    """The most bytes alive at once of the tensors made inside."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.seen = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        inputs = {t.untyped_storage() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage not in self.seen and storage not in inputs:
                    self.seen.add(storage)
                    self.now += storage.nbytes()
                    self.most = max(self.most, self.now)
                    weakref.finalize(storage, self.free, storage.nbytes())
        return out

    def free(self, size):
        self.now -= size


def test_bytes_of_a_cached_token_are_those_in_the_cache(qwen):
    model = qwen(3, torch.bfloat16)
    cache = model(torch.zeros(1, 7, dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert held == 7 * cached_token_bytes(model)


@pytest.mark.parametrize(
    "layers, dtype, rows, width, new, vocabulary",
    [
        (4, torch.float32, 6, 700, 24, 2000),
        (12, torch.bfloat16, 6, 400, 16, 2000),
        (2, torch.bfloat16, 1, 2500, 8, 2000),  # the longest prompt is all there is
        (2, torch.float32, 16, 12, 8, 30000),  # mostly logits
    ],
)
def test_a_batch_takes_no_more_than_was_said_and_not_much_less(qwen, layers, dtype, rows, width, new, vocabulary):
    model = qwen(layers, dtype, vocabulary)
    said = needed_bytes(model, rows * (width + 9 + 2 * 4 * new), rows, len(ALPHAS), width)
    with Peak() as peak:
        decode(model, [[5] * width] * rows, [[6] * 9] * rows, ALPHAS, new, stops=[])
    assert peak.most <= said <= 2.5 * peak.most


@given(st.integers(0, 2**37), st.integers(1, 64), st.integers(1, 8), st.integers(1, 8000))
def test_the_most_tokens_that_fit(small, free, rows, branches, longest):
    tokens = fitting_tokens(small, free, rows, branches, longest)
    assert tokens == 1 or needed_bytes(small, tokens, rows, branches, longest) <= SHARE * free
    assert needed_bytes(small, tokens + 1, rows, branches, longest) > SHARE * free - 1


def test_free_memory_of_the_cpu_is_seen():
    assert 2**20 < free_bytes(torch.device("cpu")) < 2**50
