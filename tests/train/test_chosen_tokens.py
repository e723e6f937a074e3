"""Log-probabilities of chosen tokens are those of plain log_softmax, in values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from train import chosen_tokens
from train.chosen_tokens import Chosen, Values, log_probs_and_entropy

SIZE, VOCABULARY = 5, 7


def plainly(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, chosen: Chosen, temperature: float
) -> Values:
    """All logits at once."""
    all_log_probs = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias) / temperature, -1)
    return all_log_probs[chosen.places, chosen.tokens], -(all_log_probs.exp() * all_log_probs).sum(-1)


@settings(max_examples=30, deadline=None)
@given(
    places=st.lists(st.integers(0, 8), max_size=12),
    of_product=st.integers(1, 100),
    of_block=st.integers(1, 100),
    temperature=st.floats(0.3, 2),
    frozen=st.booleans(),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_log_softmax(
    places: list[int], of_product: int, of_block: int, temperature: float, frozen: bool, with_bias: bool, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(9, SIZE, generator=draw, requires_grad=True)
    weight = torch.randn(VOCABULARY, SIZE, generator=draw, requires_grad=not frozen)
    bias = torch.randn(VOCABULARY, generator=draw, requires_grad=True) if with_bias else None
    tokens = torch.randint(VOCABULARY, (len(places),), generator=draw)
    chosen = Chosen(torch.tensor(places, dtype=torch.long), tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(chosen_tokens.PRODUCT, "cpu", of_product)
        patch.setitem(chosen_tokens.BLOCK, "cpu", of_block)
        ours = log_probs_and_entropy(hidden, weight, bias, chosen, temperature, with_entropy=True)
    plain = plainly(hidden, weight, bias, chosen, temperature)
    slopes = [torch.randn(len(values), generator=draw) for values in plain]
    learnt = [tensor for tensor in (hidden, weight, bias) if tensor is not None and tensor.requires_grad]
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other)
    for mine, other in zip(
        torch.autograd.grad(ours, learnt, slopes), torch.autograd.grad(plain, learnt, slopes), strict=True
    ):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_under_autocast_products_are_in_its_precision_going_back_too() -> None:
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(9, SIZE, generator=draw).bfloat16().requires_grad_()
    weight = torch.randn(VOCABULARY, SIZE, generator=draw, requires_grad=True)
    chosen = Chosen(torch.arange(9), torch.arange(9) % VOCABULARY)
    with torch.autocast("cpu", torch.bfloat16):
        ours, _ = log_probs_and_entropy(hidden, weight, None, chosen, 1.0, with_entropy=False)
    logits = torch.nn.functional.linear(hidden, weight.bfloat16()).float()
    plain = torch.log_softmax(logits, -1)[chosen]
    slopes = torch.randn(9, generator=draw)
    torch.testing.assert_close(ours, plain)
    for mine, other in zip(
        torch.autograd.grad(ours, [hidden, weight], slopes),
        torch.autograd.grad(plain, [hidden, weight], slopes),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=0.05, rtol=0.05)


def test_no_more_logits_exist_at_once_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(states: torch.Tensor, weight: torch.Tensor, bias: None) -> torch.Tensor:
        logits = states @ weight.T
        seen.append(logits.numel())
        return logits

    monkeypatch.setattr(chosen_tokens, "linear", counted)
    monkeypatch.setitem(chosen_tokens.PRODUCT, "cpu", 3 * VOCABULARY)
    hidden = torch.randn(10, SIZE, requires_grad=True)
    chosen = Chosen(torch.arange(10), torch.arange(10) % VOCABULARY)
    values, entropy = log_probs_and_entropy(
        hidden, torch.randn(VOCABULARY, SIZE), None, chosen, 1.0, with_entropy=False
    )
    values.sum().backward()
    assert entropy is None
    assert sorted(seen) == sorted(2 * [21, 21, 21, 7])  # once going forward, once going back
