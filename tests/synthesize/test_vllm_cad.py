"""The coupled pairs on vLLM against the packed decoder, in engines that make it hard to keep a pair together."""

import pytest

pytest.importorskip("vllm")

from synthesize.cad import decode

pytestmark = pytest.mark.vllm

ALPHAS = [0.0, -0.5, -1.0, -1.4]
NEW, VOCABULARY, QUESTIONS = 40, 500, 16
STOPS = list(range(1, 9))
HOSTILE = {
    "roomy": {"max_num_seqs": 64, "max_num_batched_tokens": 4096},
    "prefill in small chunks": {"max_num_seqs": 16, "max_num_batched_tokens": 48},
    "three rows for pairs": {"max_num_seqs": 3, "max_num_batched_tokens": 512},
    "no prefix cache": {"max_num_seqs": 16, "max_num_batched_tokens": 64, "enable_prefix_caching": False},
    "preempted": {"max_num_seqs": 32, "max_num_batched_tokens": 512, "block_size": 16, "num_gpu_blocks_override": 70},
}


@pytest.fixture(scope="module")
def model(random_model):
    """Its answers depend on alpha and end early now and then."""
    return random_model(std=0.15, layers=3, vocab_size=VOCABULARY, hidden_size=128, intermediate_size=128)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "random"
    model.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def prompts(random_prompts):
    return random_prompts(0, QUESTIONS, tokens=range(10, VOCABULARY), question=30, passage=300)


@pytest.fixture(scope="module")
def packed(model, prompts):
    return decode(model, *prompts, ALPHAS, NEW, STOPS)


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_pair_that_counts_is_wrong(kind, folder, model, prompts, packed, same_but_for_ties):
    from synthesize.vllm_cad import VLLMDecoder, lost_pairs

    decoder = VLLMDecoder(
        folder, "float32", max_model_len=512, enforce_eager=True, disable_log_stats=False, **HOSTILE[kind]
    )
    coupled = decoder.decode(*prompts, ALPHAS, NEW, STOPS)
    counted = {metric.name: getattr(metric, "value", None) for metric in decoder._llm.get_metrics()}
    assert (counted["vllm:num_preemptions"] > 0) == (kind == "preempted")
    wrong, missing = [], 0
    for question, (*pair, ours, theirs) in enumerate(zip(*prompts, coupled, packed, strict=True)):
        for mine, other in zip(ours, theirs, strict=True):
            if mine is None:
                missing += 1
            elif mine != other and not same_but_for_ties(model, pair, other.alpha, mine.ids, other.ids):
                wrong.append((question, other.alpha))
    print(f"{kind}: {QUESTIONS * 2} pairs, {missing} left to the packed decoder, {len(wrong)} wrong")
    assert not wrong
    assert not lost_pairs
    assert missing == 0 or kind != "roomy"
    assert len({response.ids for responses in packed for response in responses}) > QUESTIONS * 2
    assert {response.finished for responses in packed for response in responses} == {True, False}
