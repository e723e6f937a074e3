"""The sampler against transformers' own decoding; on a CPU, where it runs the same steps without graphs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM, Qwen2Config

from rag_zeval.errors import InputError
from rag_zeval.models.decoding import Generated
from train.one_gpu import sampler as module
from train.one_gpu.sampler import Sampler, check_kind
from train.one_gpu.training import reply_log_probs

VOCABULARY, EOS, ROOM, REPLY = 40, 7, 12, 30
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=[(4, 2, False), (4, 4, True)], ids=["grouped queries", "biases"])
def model(request: pytest.FixtureRequest) -> Any:
    """A Llama with random weights, so large that its choices differ from each other."""
    heads, groups, bias = request.param
    torch.manual_seed(0)
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            attention_bias=bias,
            tie_word_embeddings=True,
            initializer_range=0.5,
        )
    )
    for name, weight in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    return made.eval()


@pytest.fixture
def sampler(model: Any) -> Sampler:
    made = Sampler(model.config, 16, ROOM, REPLY, {EOS}, CPU)
    made.load(model.state_dict())
    return made


def prompts(number: int) -> list[list[int]]:
    drawn = torch.Generator().manual_seed(number)
    return [torch.randint(8, VOCABULARY, (2 + at % (ROOM - 1),), generator=drawn).tolist() for at in range(number)]


def test_greedy_replies_are_those_of_transformers(model: Any, sampler: Sampler) -> None:
    asked = prompts(9)
    for prompt, (ids, _) in zip(asked, sampler.sample(asked, 1, REPLY, 0), strict=True):
        theirs = model.generate(
            torch.tensor([prompt]), max_new_tokens=REPLY, do_sample=False, eos_token_id=EOS, pad_token_id=0
        )
        assert ids == theirs[0, len(prompt) :].tolist()


def test_log_probabilities_are_those_of_the_policy_and_samples_differ(model: Any, sampler: Sampler) -> None:
    torch.manual_seed(1)
    asked = prompts(3)
    replies = sampler.sample(asked, 5, REPLY, 0.8)
    rows = [(asked[at // 5], ids) for at, (ids, _) in enumerate(replies)]
    theirs = reply_log_probs(model, rows, 0.8)
    torch.testing.assert_close(
        torch.tensor([value for _, values in replies for value in values]), theirs, atol=1e-4, rtol=1e-4
    )
    assert len({tuple(ids) for ids, _ in replies}) > 10
    assert all(EOS not in ids[:-1] for ids, _ in replies)
    assert all(len(ids) == REPLY or ids[-1] == EOS for ids, _ in replies)


def test_samples_follow_the_tempered_distribution(model: Any, sampler: Sampler) -> None:
    torch.manual_seed(2)
    prompt = prompts(1)[0]
    with torch.no_grad():
        expected = (model(torch.tensor([prompt])).logits[0, -1] / 1.5).softmax(-1)
    drawn = torch.zeros(VOCABULARY)
    for _ in range(60):
        for ids, _ in sampler.sample([prompt], 16, 1, 1.5):
            drawn[ids[0]] += 1 / (60 * 16)
    assert float((drawn - expected).abs().sum()) / 2 < 0.1  # total variation; 0.06 by chance


def test_replies_are_the_same_when_rows_leave_early(
    sampler: Sampler, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = prompts(16)
    kept = Sampler(model.config, 16, ROOM, REPLY, {EOS}, CPU)
    kept.load(model.state_dict())
    monkeypatch.setattr(kept, "_close_gaps", lambda rows: rows)
    monkeypatch.setattr(module, "CHECK", 2)
    monkeypatch.setattr(module, "SMALLEST", 1)
    replies = sampler.sample(asked, 1, REPLY, 0)
    assert len({len(ids) for ids, _ in replies}) > 1, "no row ended before another"
    for (ids, values), (same, close) in zip(replies, kept.sample(asked, 1, REPLY, 0), strict=True):
        assert ids == same
        torch.testing.assert_close(torch.tensor(values), torch.tensor(close), atol=1e-4, rtol=1e-4)


def test_new_weights_are_used(sampler: Sampler, model: Any) -> None:
    before = sampler.sample(prompts(4), 1, REPLY, 0)
    sampler.load({name: weight.flip(0) for name, weight in model.state_dict().items()})
    assert sampler.sample(prompts(4), 1, REPLY, 0) != before


def test_other_kinds_of_models_are_refused(nano_base: Path) -> None:
    with pytest.raises(InputError, match="plain Llamas only; this model's type is 'qwen2'"):
        check_kind(Qwen2Config())
    check_kind(AutoConfig.from_pretrained(nano_base))


@pytest.mark.gpu
def test_graphs_write_what_the_policy_expects(model: Any) -> None:
    cuda = model.to("cuda")
    sampler = Sampler(cuda.config, 64, ROOM, REPLY, {EOS}, cuda.device)
    sampler.load(cuda.state_dict())
    asked = prompts(16)
    for temperature in (0.0, 0.8):
        drawn: list[Generated] = []
        for _ in range(2):  # recorded, then replayed
            torch.manual_seed(3)
            replies = sampler.sample(asked, 4, REPLY, temperature)
            drawn.append(replies)
            rows = [(asked[at // 4], ids) for at, (ids, _) in enumerate(replies)]
            with torch.no_grad():
                theirs = reply_log_probs(cuda, rows, temperature or 1.0).exp()
            ours = torch.tensor([value for _, values in replies for value in values], device="cuda").exp()
            assert float((ours - theirs).abs().mean()) < 0.01  # bfloat16
        assert [ids for ids, _ in drawn[0]] == [ids for ids, _ in drawn[1]], "recording draws random numbers"
    model.to("cpu")
