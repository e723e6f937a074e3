"""Log-probabilities of chosen tokens from hidden states, without the logits of all positions at once.

With a large vocabulary, logits take most of an update's memory: 1,000 positions of SmolLM2 have 49 million. Here only
the logits of a few positions exist at a time, and the backward pass computes them again.
"""

from typing import NamedTuple

import torch
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

# Most logits at once, by kind of device. On a CPU they should fit into its caches; a GPU needs large products.
LOGITS = {"cpu": 2**23, "cuda": 2**28}
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
    False, None is returned for the entropy. Logits are divided by `temperature` in fp32. No gradient is computed for a
    frozen weight.

        chosen = Chosen(places=torch.tensor([0, 0]), tokens=torch.tensor([5, 7]))  # two tokens after the first state
        log_probs, _ = log_probs_and_entropy(hidden, model.lm_head.weight, None, chosen, 1.0, with_entropy=False)
    """

    def of_chunk(states: torch.Tensor, places: torch.Tensor, tokens: torch.Tensor) -> Values:
        logits = linear(states, weight, bias).float() / temperature
        flat = torch.log_softmax(logits, -1).flatten()
        entropy = _entropy(logits) if with_entropy else None
        return flat.index_select(0, places * logits.shape[-1] + tokens), entropy

    size = max(1, LOGITS[hidden.device.type] // len(weight))
    order = torch.argsort(chosen.places, stable=True)  # then the tokens of a chunk of places are contiguous
    of_chunks = torch.bincount(chosen.places // size, minlength=-(-len(hidden) // size)).tolist()
    columns = (column[order].split(of_chunks) for column in chosen)
    parts = zip(hidden.split(size), *columns, strict=True)
    chunks = [
        checkpoint(of_chunk, states, places % size, tokens, use_reentrant=False, preserve_rng_state=False)
        for states, places, tokens in parts
    ]
    log_probs = torch.cat([values for values, _ in chunks]).index_select(0, torch.argsort(order))
    return log_probs, torch.cat([entropy for _, entropy in chunks]) if with_entropy else None


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    """Return the Shannon entropy in nats [...] of logits [..., vocabulary]."""
    return logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)
