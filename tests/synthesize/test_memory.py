"""The memory of a batch: against what torch allocates, and as a bound that is kept."""

from __future__ import annotations

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from synthesize.answering import SHARE, cached_token_bytes, fitting_tokens, free_bytes, needed_bytes  # noqa: E402
from synthesize.cad import decode  # noqa: E402

ALPHAS = [0.0, -0.5, -1.0, -1.4]


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
