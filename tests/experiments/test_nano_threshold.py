"""Margins against the log-probabilities of decoding; ranking, AUC and the best threshold against their definitions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.nano_threshold import JudgedPrompt, auc, best_threshold, judge, read, verdict_margins
from rag_zeval.errors import InputError
from rag_zeval.stages import world
from train.nano.tasks import trajectory

NANO_BASE = Path(__file__).parents[2] / "checkpoints" / "nano-base"
EXAMPLES = world.ranked_examples("dev", 6, 4, seed=3)


def perfect(example: world.RankedExample) -> str:
    stated = [[world.read_claim(f"{part.rstrip('.')}.") for part in answer.split(". ")] for answer in example.answers]
    values = [dict(claim for claim in claims if claim) for claims in stated]
    return trajectory(example.question, values, random.Random(0), undecided=frozenset())


@given(st.lists(st.lists(st.floats(-9, 9), min_size=16, max_size=16), min_size=1, max_size=3), st.floats(-9, 9))
def test_the_best_threshold_is_no_worse_than_any(margins: list[list[float]], threshold: float) -> None:
    judged = [
        JudgedPrompt(example, tuple(at // 4 for at in range(16)), (True, False) * 8, tuple(of))
        for example, of in zip(EXAMPLES, margins, strict=False)
    ]

    def ranking(at: float) -> int:
        return sum(one.ranked(at) for one in judged)

    best = best_threshold(judged, steps=500)
    assert ranking(best) >= max(ranking(0.0), ranking(threshold))


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=12))
def test_auc_is_the_chance_that_a_true_claim_stands_above_a_false_one(claims: list[tuple[bool, int]]) -> None:
    true, false = ([margin for truth, margin in claims if truth is wanted] for wanted in (True, False))
    if not true or not false:
        return
    one = JudgedPrompt(EXAMPLES[0], (0,) * len(claims), tuple(t for t, _ in claims), tuple(float(m) for _, m in claims))
    above = sum((t > f) + 0.5 * (t == f) for t in true for f in false)
    assert auc([one]) == pytest.approx(above / (len(true) * len(false)))


def test_a_perfect_trajectory_is_ranked_rightly_and_a_flat_one_is_not() -> None:
    for example in EXAMPLES:
        text = perfect(example)
        verdicts = [word == "true" for word in text.replace("}", " ").split() if word in ("true", "false")]
        one = read(example, text, [1.0 if verdict else -1.0 for verdict in verdicts], "compact")
        assert one is not None and one.truths == tuple(verdicts)
        assert one.ranked(0.0) and one.accuracy(0.0) == 1
        assert not one.ranked(-2.0) and one.accuracy(-2.0) == sum(verdicts) / len(verdicts)


def test_a_reply_that_the_strict_parser_does_not_read_is_left_out_and_foreign_verdicts_are_refused() -> None:
    text = perfect(EXAMPLES[0])
    assert read(EXAMPLES[0], text[:-1], [], "compact") is None
    with pytest.raises(InputError, match="tokens 'true' and 'false'"):
        read(EXAMPLES[0], text, [1.0], "compact")


def test_margins_are_those_of_a_pass_over_one_reply_alone() -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.judge.prompt import judge_messages
    from rag_zeval.models.decoding import generate, stop_ids
    from rag_zeval.models.language_model import chat_ids

    tokenizer = AutoTokenizer.from_pretrained(NANO_BASE)
    model = AutoModelForCausalLM.from_pretrained(NANO_BASE, dtype=torch.float32).eval()
    some = EXAMPLES[:3]
    prompts = [
        chat_ids(tokenizer, judge_messages("compact", e.question.question, e.question.passage, e.answers)) for e in some
    ]
    replies = [tokens for tokens, _ in generate(model, prompts, 700, eos=stop_ids(model, tokenizer))]
    margins = verdict_margins(model, tokenizer, prompts, replies)
    false, true = tokenizer.convert_tokens_to_ids(["false", "true"])
    for prompt, reply, own in zip(prompts, replies, margins, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *reply]])).logits[0]
        places = [at for at, token in enumerate(reply) if token in (false, true)]
        expected = [float(logits[len(prompt) + at - 1, true] - logits[len(prompt) + at - 1, false]) for at in places]
        assert own == pytest.approx(expected, abs=1e-3) and len(own) > 0
        assert [margin > 0 for margin in own] == [reply[at] == true for at in places]  # greedy: the likelier one
    judged = judge(model, tokenizer, some, "compact", 700)
    own_of = dict(zip([each.id for each in some], margins, strict=True))
    assert judged and all(one.margins == pytest.approx(own_of[one.example.id], abs=1e-3) for one in judged)
