"""Batched decoding against transformers' own generate, and samples that do not depend on the batch."""

import pytest

torch = pytest.importorskip("torch")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper  # noqa: E402

from rag_zeval.decoding import _truncated, generate  # noqa: E402

VOCABULARY = 60


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


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


def test_greedy_equals_transformers_with_early_stops_and_a_limit_for_each_row(model, prompts):
    free = [tokens for tokens, _ in generate(model, prompts, 40, eos=[])]
    eos = sorted({free[0][5], free[2][12], free[3][1]})
    limits = [40, 3, 40, 40, 17]
    ours = generate(model, prompts, limits, eos=eos)
    assert len({len(tokens) for tokens, _ in ours}) > 2, "the test wants rows of different lengths"
    for prompt, limit, (tokens, logprobs) in zip(prompts, limits, ours, strict=True):
        assert tokens == transformers_greedy(model, prompt, limit, eos)
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(logprobs), expected, atol=1e-4, rtol=0)


def test_the_cache_grows_beyond_its_first_room(model, prompts):
    (tokens, _), *_ = generate(model, prompts[:1], 250, eos=[])
    assert tokens == transformers_greedy(model, prompts[0], 250, None)


def test_a_sample_depends_on_its_seed_and_not_on_its_batch(model, prompts):
    options = {"temperature": 1.0, "top_p": 0.9, "eos": [5]}
    together = generate(model, prompts, 30, seeds=[10, 11, 12, 13, 14], **options)
    alone = [generate(model, [p], 30, seeds=[10 + i], **options)[0] for i, p in enumerate(prompts)]
    assert [tokens for tokens, _ in together] == [tokens for tokens, _ in alone]
    other = generate(model, prompts, 30, seeds=[20, 21, 22, 23, 24], **options)
    assert [tokens for tokens, _ in together] != [tokens for tokens, _ in other]


def test_samples_follow_the_distribution(model, prompts):
    draws = generate(model, [prompts[0]] * 4000, 1, temperature=1.5, seeds=list(range(4000)), eos=[])
    counts = torch.bincount(torch.tensor([tokens[0] for tokens, _ in draws]), minlength=VOCABULARY) / 4000
    expected = (model(torch.tensor([prompts[0]])).logits[0, -1].float() / 1.5).softmax(-1)
    assert (counts - expected).abs().max() < 4 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize(("top_p", "top_k"), [(0.9, -1), (0.5, -1), (1.0, 5), (0.8, 10)])
def test_truncation_keeps_what_transformers_keeps(top_p, top_k):
    logits = torch.randn(20, VOCABULARY, generator=torch.Generator().manual_seed(2))
    expected = logits
    if top_k > 0:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(None, expected)
    assert torch.equal(_truncated(logits, top_p, top_k).isinf(), expected.isinf())


def test_sampling_without_seeds_is_refused(model):
    with pytest.raises(ValueError, match="seed"):
        generate(model, [[1]], 1, temperature=1.0, eos=[])
