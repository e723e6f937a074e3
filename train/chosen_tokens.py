"""Log-probabilities of chosen tokens from hidden states, without the logits of all positions at once.

With a large vocabulary, logits take most of an update's memory: 1,000 positions of SmolLM2 have 49 million. Here only
the logits of a few positions exist at a time, and the backward pass computes them again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

# Most logits of one product, and most of these that are read and changed at once, by kind of device. Large products are
# fast, and a CPU's caches hold few logits.
PRODUCT = {"cpu": 2**25, "cuda": 2**28}
BLOCK = {"cpu": 2**20, "cuda": 2**28}
Values = tuple[torch.Tensor, torch.Tensor | None]


class Chosen(NamedTuple):
    """LongTensors [tokens]: for each token the index of the hidden state that predicts it (its place), and its id."""

    places: torch.Tensor
    tokens: torch.Tensor


def log_probs_and_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    chosen: Chosen,
    temperature: float,
    with_entropy: bool,
) -> Values:
    """Return log-probabilities of the chosen tokens [tokens], and the entropy of each place [places], both in fp32.

    hidden: [places, size]. weight, bias: of the output layer, [vocabulary, size] and [vocabulary]. with_entropy: if
    False, None is returned for the entropy, which is Shannon's, in nats. Logits are divided by `temperature` in fp32.
    No gradient is computed for a frozen weight.

        chosen = Chosen(places=torch.tensor([0, 0]), tokens=torch.tensor([5, 7]))  # two tokens after the first state
        log_probs, _ = log_probs_and_entropy(hidden, model.lm_head.weight, None, chosen, 1.0, with_entropy=False)
    """
    device = hidden.device.type
    if torch.is_autocast_enabled(device):  # it does not reach into the backward pass of a function
        dtype = torch.get_autocast_dtype(device)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    found: Values = _OutputLayer.apply(hidden, weight, bias, *chosen, temperature, with_entropy)
    return found


class _OutputLayer(torch.autograd.Function):
    """The output layer, up to the values of `log_probs_and_entropy`. With autograd, a pass would copy logits often."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        places: torch.Tensor,
        tokens: torch.Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> Values:
        log_probs = torch.empty(len(tokens), device=hidden.device)
        log_sums = torch.empty(len(hidden), device=hidden.device)
        entropy = torch.empty_like(log_sums) if with_entropy else None
        for start, product in _products(hidden, weight, bias):
            for at, mine, logits, _ in _blocks(start, product, places, temperature):
                log_sums[at] = logits.logsumexp(-1)
                log_probs[mine] = logits[places[mine] - at.start, tokens[mine]] - log_sums[places[mine]]
                if entropy is not None:
                    entropy[at] = log_sums[at] - logits.softmax(-1).mul_(logits).sum(-1)
        ctx.save_for_backward(hidden, weight, bias, places, tokens, log_sums, entropy)
        ctx.temperature = temperature
        return log_probs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_tokens: torch.Tensor, of_entropy: Any) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of `forward`'s arguments, given those of the log-probabilities and of the entropy."""
        hidden, weight, bias, places, tokens, log_sums, entropy = ctx.saved_tensors
        of_tokens = of_tokens / ctx.temperature
        of_places = torch.zeros_like(log_sums).index_add_(0, places, of_tokens)
        of_hidden, of_weight, of_bias = (
            torch.zeros_like(one) if needed else None
            for one, needed in zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)
        )
        for start, product in _products(hidden, weight, bias):
            for at, mine, logits, block in _blocks(start, product, places, ctx.temperature):
                log_p = logits.sub_(log_sums[at, None])
                if entropy is None:
                    slopes = log_p.exp_().mul_(-of_places[at, None])
                else:
                    slopes = log_p.exp()
                    surprise = log_p.add_(entropy[at, None]).mul_(of_entropy[at, None] / ctx.temperature)
                    slopes.mul_(surprise.add_(of_places[at, None]).neg_())
                slopes.index_put_((places[mine] - at.start, tokens[mine]), of_tokens[mine], accumulate=True)
                block.copy_(slopes)
            states = slice(start, start + len(product))
            if of_hidden is not None:
                of_hidden[states] = product @ weight
            if of_weight is not None:
                of_weight.addmm_(product.T, hidden[states])
            if of_bias is not None:
                of_bias += product.sum(0)
        return of_hidden, of_weight, of_bias, None, None, None, None


def _products(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the logits of some places at a time [places, vocabulary], with the first of these places."""
    size = max(1, PRODUCT[hidden.device.type] // len(weight))
    for number, states in enumerate(hidden.split(size)):
        yield number * size, linear(states, weight, bias)


def _blocks(
    start: int, product: torch.Tensor, places: torch.Tensor, temperature: float
) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Yield for some places of a product at a time: the places, the indices of their tokens, and their logits twice.

    First the logits are in fp32 and divided by the temperature, in a tensor of their own. Then they are those of the
    product.
    """
    for block in product.split(max(1, BLOCK[product.device.type] // product.shape[1])):
        at = slice(start, start + len(block))
        mine = ((places >= at.start) & (places < at.stop)).nonzero().squeeze(1)
        yield at, mine, block.float() / temperature, block
        start = at.stop
