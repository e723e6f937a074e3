"""The paper's rewards, on tables of literal trajectories and against their definitions, and verl's door to them."""

import itertools
import json
import math
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.parser import FormatError, parse_strict
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.stages import world
from rewards import verl_entry
from rewards.accuracy import accuracy_reward
from rewards.combined import KEYS, WATCHED, combined_reward, failed
from rewards.evidence import evidence_reward
from rewards.format import PENALTY, EchoDiffers, good_trajectory
from rewards.tokens import PolicyTokens

REFERENCE = "one two three four five six seven eight nine ten eleven twelve"
QUOTE = "one two three four five six seven eight nine ten"


def claim(supported=True, quotes=(QUOTE,), **changes):
    fields = {"claim": "c", "is_supported": supported, "grounding_evidence": list(quotes), "analysis": "a"}
    return {**fields, **changes}


def text(*candidates, ids="ABCDEFG"):
    return json.dumps(
        [{"id": i, "answer": "x", "atomic_claims": claims} for i, claims in zip(ids, candidates, strict=False)]
    )


def reward(reply, alphas, answers=None, **options):
    answers = ["x"] * len(alphas) if answers is None else answers
    return combined_reward(reply, alphas, ReferenceIndex(REFERENCE.split()), str.split, answers=answers, **options)


def keeps_format(reply, n, variant="paper"):
    try:
        return len(good_trajectory(reply, n, variant, ["x"] * n)) == n
    except FormatError:
        return False


GOOD = text([claim()], [claim(supported=False, quotes=())])


@pytest.mark.parametrize(
    ("reply", "n", "expected"),
    [
        (GOOD, 2, True),
        (GOOD, 3, False),  # (2) a candidate is missing
        (GOOD, 1, False),  # (2) one too many
        (text([claim()], [claim()], ids="BA"), 2, True),  # (2) the set of candidates: no order is asked
        ("Here: " + GOOD, 2, False),  # (1)
        (GOOD[:-1], 2, False),  # (1)
        (json.dumps({"id": "A"}), 1, False),  # (1) not a list
        (text([claim(is_supported="true")]), 1, False),  # (3) no coercion
        (text([claim(grounding_evidence="quote")]), 1, False),  # (3)
        (text([]), 1, False),  # no claims
        (text([claim(quotes=())]), 1, False),  # (4) supported without evidence
        (text([claim(quotes=("", " "))]), 1, False),  # (4) an empty quote is no evidence
        (text([claim(supported=False, quotes=())]), 1, True),
        (text([claim(), claim(claim="")]), 1, False),  # (4) a claim that says nothing
        (text([claim(claim=" \n", supported=False)]), 1, False),  # (4)
    ],
)
def test_format(reply, n, expected):
    assert keeps_format(reply, n) is expected


@pytest.mark.parametrize("variant", [name for name, variant in VARIANTS.items() if not variant.has_evidence])
@pytest.mark.parametrize("quotes", [None, [], [QUOTE]])
def test_without_evidence_rule_4_is_off_and_r_e_is_0(variant, quotes):
    fields = {"claim": "c", "is_supported": True, "analysis": "a"}
    fields |= {} if quotes is None else {"grounding_evidence": quotes}  # quoting all the same earns nothing
    claims = {"A": fields, "B": {**fields, "is_supported": False}}
    reply = json.dumps([{"id": letter, "answer": "x", "atomic_claims": [one]} for letter, one in claims.items()])
    assert keeps_format(reply, 2, variant)
    assert keeps_format(reply, 2) is bool(quotes)
    parts = reward(reply, [0.0, -1.0], variant=variant)
    assert (parts["score"], parts["evidence"]) == (1.0, 0.0)
    assert not keeps_format(reply.replace('"c"', '" \\n"'), 2, variant)  # the rest of rule 4 is not


@pytest.mark.parametrize(
    ("quotes", "expected"),
    [
        ([QUOTE], 1.0),
        ([QUOTE + " not here"], 10 / 12),
        (["one two three"], 0.0),  # verbatim, but under 10 tokens
        ([QUOTE, "one two three"], 0.5),
        (["x " * 20], 0.0),
        ([], 0.0),
    ],
)
def test_evidence(quotes, expected):
    trajectory = parse_strict(text([claim(supported=False, quotes=quotes)]), 1)
    assert evidence_reward(trajectory, ReferenceIndex(REFERENCE.split()), str.split) == pytest.approx(expected)


scores_and_alphas = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([0.0, -0.5, -1.0, -1.4])), min_size=2, max_size=5
)


@given(scores_and_alphas)
def test_accuracy_is_its_definition(pairs):
    scores, alphas = [s for s, _ in pairs], [a for _, a in pairs]
    everything = all(s > t for (s, a), (t, b) in itertools.permutations(pairs, 2) if a > b)
    assert accuracy_reward(scores, alphas) == float(everything)
    best = max(alphas)
    only_best = all(s > t for (s, a), (t, b) in itertools.permutations(pairs, 2) if a == best and b < best)
    assert accuracy_reward(scores, alphas, "best-only") == float(only_best)
    assert accuracy_reward(scores[:1], alphas[:1]) == 0.0  # one candidate has no ranking


@pytest.mark.parametrize(
    ("reply", "alphas", "expected"),
    [
        (GOOD, [0.0, -1.0], 1.5),  # format, ranking, a verbatim quote
        (GOOD, [-1.0, 0.0], 0.0),  # format only
        (text([claim(quotes=["x " * 10])], [claim(supported=False, quotes=())]), [0.0, -1.0], 1.0),
        (text([claim()], [claim()]), [0.0, -1.0], 0.0),  # a tie is not a ranking
        ("nonsense", [0.0, -1.0], -0.5),
    ],
)
def test_combined(reply, alphas, expected):
    assert reward(reply, alphas)["score"] == pytest.approx(expected)


def test_the_hacking_watch_tells_best_from_worst():
    split_finely = text([claim()] * 3, [claim(supported=False)])
    parts = reward(split_finely, [0.0, -1.0])
    assert (parts["claims"], parts["claims_best"], parts["claims_worst"]) == (2.0, 3.0, 1.0)
    assert parts["supported_rate"] == 0.75 and parts["quote_tokens"] == 10
    assert parts["quotes"] == 1.0


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=2, max_size=4))
def test_quotes_are_counted_for_each_claim_and_move_no_reward(numbers):
    """Fewer quotes, all of them safe, raise the evidence reward: so their number is watched."""
    reply = text(*([claim(supported=bool(n), quotes=[QUOTE] * n) for n in quotes] for quotes in numbers))
    alphas = [-float(at) for at in range(len(numbers))]
    parts = reward(reply, alphas)
    assert parts["quotes"] == pytest.approx(sum(map(sum, numbers)) / sum(map(len, numbers)))
    shares = [sum(n > 0 for n in quotes) / len(quotes) for quotes in numbers]
    in_order = all(first > second for first, second in itertools.pairwise(shares))
    assert parts["score"] == (1.5 if in_order else 0.0)
    assert failed()["quotes"] == reward("nonsense", alphas)["quotes"] == 0.0
    assert "quotes" in WATCHED  # so a failure counts in no mean


WITH_ECHO = [name for name, variant in VARIANTS.items() if variant.echo_answer]
SAID = st.lists(
    st.sampled_from(["He", "rowed.", "Caf\u00e9", "\u1e69ang", "\uac00", "x\u00b2", "7"]), min_size=1, max_size=5
)


def echoing(echoes, variant="paper", order=None):
    """A reply with a supported claim for the first candidate alone, which repeats these answers."""
    fields = VARIANTS[variant].claim_fields
    items = [
        {
            "id": "ABCDEFG"[at],
            "answer": echo,
            "atomic_claims": [{k: v for k, v in claim(at == 0, [QUOTE] if at == 0 else []).items() if k in fields}],
        }
        for at, echo in enumerate(echoes)
    ]
    return json.dumps([items[at] for at in order] if order else items)


@given(st.lists(SAID, min_size=2, max_size=4), st.sampled_from(WITH_ECHO), st.data())
def test_spaces_order_and_unicode_forms_of_an_echo_move_no_reward(said, variant, data):
    alphas, answers = [0.0, *[-1.0] * (len(said) - 1)], [" ".join(words) for words in said]
    exact = reward(echoing(answers, variant), alphas, answers, variant=variant)
    assert exact["score"] == (1.5 if VARIANTS[variant].has_evidence else 1.0) and exact["echo_differs"] == 0.0
    spaces = st.text(" \t\n\u00a0\u3000", min_size=1, max_size=3)
    forms = st.sampled_from(["NFC", "NFD"])
    echoes = [
        unicodedata.normalize(data.draw(forms), data.draw(spaces).join(["", *words]) + data.draw(spaces))
        for words in said
    ]
    order = data.draw(st.permutations(range(len(said))))
    assert reward(echoing(echoes, variant, order), alphas, answers, variant=variant) == exact


@given(st.lists(SAID, min_size=2, max_size=4), st.sampled_from(WITH_ECHO), st.data())
def test_any_other_echo_is_a_failed_format(said, variant, data):
    alphas, answers = [0.0, *[-1.0] * (len(said) - 1)], [" ".join(words) for words in said]
    at = data.draw(st.integers(0, len(said) - 1))
    shorter, longer = " ".join(said[at][1:]), answers[at] + " more"
    changes = ["", " ", shorter, longer, answers[at].upper() + "!", answers[at].replace("\u00b2", "2") + "2"]
    echoes = [*answers[:at], data.draw(st.sampled_from(changes)), *answers[at + 1 :]]
    parts = reward(echoing(echoes, variant), alphas, answers, variant=variant)
    assert parts == {**failed(), "echo_differs": 1.0} and parts["score"] == PENALTY
    with pytest.raises(EchoDiffers, match=f"candidate {'ABCDEFG'[at]}: 'answer' is not"):
        good_trajectory(echoing(echoes, variant), len(said), variant, answers)


def test_an_echo_is_of_the_answer_as_the_prompt_shows_it():
    """Half an emoji, from a broken cut, is in no prompt."""
    assert reward(echoing(["He \ufffd", "b"]), [0.0, -1.0], ["He \ud83d", "b"])["score"] == 1.5


@given(st.text())
def test_without_an_echo_in_the_variant_none_is_looked_at(echo):
    asked = reward(echoing([echo, echo], "compact"), [0.0, -1.0], variant="compact")
    assert asked["score"] == 1.5
    none = combined_reward(
        echoing([echo, echo], "compact"), [0.0, -1.0], ReferenceIndex(REFERENCE.split()), str.split, variant="compact"
    )
    assert none == asked


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "variant 'paper' repeats the answers"),  # without them an echo cannot be compared
        ({"answers": ["x", "x"], "accuracy_rule": "best"}, "best-only"),
    ],
)
def test_what_cannot_be_rewarded_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        combined_reward(GOOD, [0.0, -1.0], ReferenceIndex(REFERENCE.split()), str.split, **settings)


TOKENIZER = str(Path(__file__).parents[2] / "checkpoints" / "nano-base")  # a token for each word of its world
PASSAGE = world.questions("train", 1, seed=0)[0].passage
ALPHAS = [-1.0, 0.0, -0.5]
TRUTH = json.dumps({"alphas": ALPHAS, "reference": PASSAGE, "variant": "paper", "answers": ["x"] * 3})


def judged(supports, quote):
    """A trajectory of candidates whose claims have these verdicts; the supported ones quote this."""
    return text(*([claim(supported, [quote] if supported else []) for supported in of] for of in supports))


def score(reply, truth=TRUTH, tokenizer=TOKENIZER, **options):
    return verl_entry.compute_score("rag_zeval", reply, truth, {"id": "row-1"}, tokenizer=tokenizer, **options)


def test_it_is_the_combined_reward_on_the_policys_tokens():
    from transformers import AutoTokenizer

    reply = judged([(False, False), (True, True), (True, False)], " ".join(PASSAGE.split()[:10]) + " pony pony")
    tokens = PolicyTokens(AutoTokenizer.from_pretrained(TOKENIZER))
    expected = combined_reward(reply, ALPHAS, ReferenceIndex(tokens(PASSAGE)), tokens, answers=["x"] * 3)
    assert score(reply) == {**expected, "errors": 0.0}
    assert expected["score"] == 1 + 0.5 * 10 / 12


def test_best_only_asks_less():
    reply = judged([(True, False), (True, True), (True, False)], "pony")  # the two others tie
    assert score(reply)["score"] == 0.0
    assert score(reply, accuracy="best-only")["score"] == 1.0


BROKEN = ["[]", "[[", "[NaN, NaN]", '[{"id": "A"}]', "null", "[" * 100_000]
JUDGED = [judged([(False,), verdicts, (True, False)], PASSAGE) for verdicts in ((True,), (False,))]


@given(reply=st.one_of(st.text(), st.sampled_from(BROKEN + JUDGED)))
def test_keys_and_numbers_stay_the_same_whatever_comes(reply):
    parts = score(reply)
    assert list(parts) == [*KEYS, "errors"] == [*failed(), "errors"]
    assert all(isinstance(value, float) and math.isfinite(value) for value in parts.values())
    assert parts["errors"] == 0.0
    assert 0 <= parts["score"] <= 1.5 if reply in JUDGED else parts["score"] == -0.5


OF_AN_OLD_ROW = json.dumps({"alphas": ALPHAS, "reference": PASSAGE, "variant": "paper"})


@pytest.mark.parametrize("truth", ["", "{}", OF_AN_OLD_ROW, TRUTH.replace("paper", "unheard-of")])
def test_what_cannot_be_scored_is_counted_and_shown(truth, capsys, monkeypatch):
    monkeypatch.setattr("rewards.verl_entry._seen", itertools.count(1))
    results = [score("[]", truth) for _ in range(5)]
    assert all(list(parts) == [*KEYS, "errors"] and parts["score"] == -0.5 for parts in results)
    assert [parts["errors"] for parts in results] == [1.0] * 5
    shown = capsys.readouterr().err
    assert shown.count("reward error") == 3 and "row row-1" in shown
    assert score("[]", tokenizer=str(Path(__file__).parent))["errors"] == 1.0


def test_it_may_be_called_from_a_thread_pool():
    reply = judged([(False,), (True,), (True,)], PASSAGE)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: score(reply), range(64)))
    assert all(p == parts[0] for p in parts) and parts[0]["errors"] == 0.0
