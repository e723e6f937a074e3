"""Margins against a pass over one reply alone; ranking and the best threshold against their definitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.nano_threshold import Claim, JudgedPrompt, auc, best_threshold, judge, verdict_margins
from rag_zeval.errors import InputError
from rag_zeval.stages import world

NANO_BASE = Path(__file__).parents[2] / "checkpoints" / "nano-base"
EXAMPLES = world.ranked_examples("dev", 3, 4, seed=3)


def of_four_claims(example: world.RankedExample, margins: list[float]) -> JudgedPrompt:
    return JudgedPrompt(example, [Claim(at // 4, None, margin) for at, margin in enumerate(margins)])


def test_candidates_are_ranked_by_their_share_of_margins_above_the_threshold() -> None:
    [example] = EXAMPLES[:1]
    order = sorted(range(4), key=lambda at: example.true_support[at])
    margins = [1.0 if claim < order.index(candidate) else -1.0 for candidate in range(4) for claim in range(4)]
    judged = of_four_claims(example, margins)
    assert judged.ranked(0.0) and not judged.ranked(-2.0)
    assert not of_four_claims(example, [-margin for margin in margins]).ranked(0.0)


@given(st.lists(st.lists(st.floats(-9, 9), min_size=16, max_size=16), min_size=1, max_size=3), st.floats(-9, 9))
def test_the_best_threshold_is_no_worse_than_any(margins: list[list[float]], threshold: float) -> None:
    judged = [of_four_claims(example, of) for example, of in zip(EXAMPLES, margins, strict=False)]

    def ranking(at: float) -> int:
        return sum(one.ranked(at) for one in judged)

    assert ranking(best_threshold(judged, steps=500)) >= max(ranking(0.0), ranking(threshold))


def test_auc_leaves_unreadable_claims_out() -> None:
    claims = [(True, 3.0), (True, 1.0), (False, 1.0), (False, 0.0), (None, -9.0)]
    assert auc([JudgedPrompt(EXAMPLES[0], [Claim(0, *claim) for claim in claims])]) == pytest.approx(3.5 / 4)


def test_margins_are_those_of_a_pass_over_one_reply_alone_and_foreign_verdicts_are_refused() -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rag_zeval.judge.prompt import judge_messages
    from rag_zeval.models.decoding import generate, stop_ids
    from rag_zeval.models.language_model import chat_ids

    tokenizer = AutoTokenizer.from_pretrained(NANO_BASE)
    model = AutoModelForCausalLM.from_pretrained(NANO_BASE, dtype=torch.float32).eval()
    asked = [judge_messages("compact", e.question.question, e.question.passage, e.answers) for e in EXAMPLES]
    prompts = [chat_ids(tokenizer, messages) for messages in asked]
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
    judged = judge(model, tokenizer, EXAMPLES, "compact", 700)
    own_of = dict(zip([each.id for each in EXAMPLES], margins, strict=True))
    assert judged
    for one in judged:
        assert [claim.margin for claim in one.claims] == pytest.approx(own_of[one.example.id], abs=1e-3)
    assert judge(model, tokenizer, EXAMPLES, "compact", 20) == []  # cut short: the strict parser reads none
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.nano_threshold.verdict_margins", lambda *_: [[1.0]] * len(EXAMPLES))
        with pytest.raises(InputError, match="tokens 'true' and 'false'"):
            judge(model, tokenizer, EXAMPLES, "compact", 700)
