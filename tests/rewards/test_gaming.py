"""Trajectories that judge nothing better, and what they earn today: docs/rewards.md tells of each.

Both answers are half right, so an honest judge ties them and earns 0, or they differ by what has nothing to do with it.
"""

import json
from typing import Any

import pytest

from rag_zeval.judge.evidence import ReferenceIndex
from rewards.combined import combined_reward, failed
from rewards.tokens import PolicyTokens

FIRST = "The old mill by the river was closed in the wet spring."
SECOND = "The new bridge over the river was opened in the dry autumn."
PASSAGE = f"{FIRST} {SECOND}"
BETTER, WORSE = "The mill was closed. It was green.", "The bridge was opened. It was red."
ALPHAS = [0.0, -1.0]

Claim = dict[str, Any]
CLOSED, GREEN, OPENED, RED = (
    "The mill was closed.",
    "The mill was green.",
    "The bridge was opened.",
    "The bridge was red.",
)


def yes(claim: str, quote: str = FIRST, analysis: str = "The passage says so.") -> Claim:
    return {"claim": claim, "is_supported": True, "grounding_evidence": [quote], "analysis": analysis}


def no(claim: str, analysis: str = "The passage does not say so.") -> Claim:
    return {"claim": claim, "is_supported": False, "grounding_evidence": [], "analysis": analysis}


def earned(better: list[Claim], worse: list[Claim], *, answers: tuple[str, str] = (BETTER, WORSE), **other: Any) -> Any:
    echoes = other.get("echoes", answers)
    reply = [
        {"id": letter, "answer": echo, "atomic_claims": claims}
        for letter, echo, claims in zip("AB", echoes, (better, worse), strict=True)
    ]
    alphas, tokenize = other.get("alphas", ALPHAS), other.get("tokenize", str.split)
    index = ReferenceIndex(tokenize(PASSAGE))
    return combined_reward(json.dumps(reply), alphas, index, tokenize, answers=list(answers))


HONEST = [yes(CLOSED), no(GREEN)], [yes(OPENED, SECOND), no(RED)]


def test_an_honest_judge_of_two_equal_answers_earns_nothing() -> None:
    parts = earned(*HONEST)
    assert (parts["score"], parts["tie_rate"], parts["evidence"]) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        # the fact that is right in three pieces, in the answer that is to win
        ([yes("There was a mill."), yes("It was old."), yes(CLOSED), no(GREEN)], HONEST[1]),
        # one claim for the other answer
        (HONEST[0], [no("The bridge was opened and red.")]),
        # the claim that is wrong left out
        ([yes(CLOSED)], HONEST[1]),
        # the claim that is right said twice
        ([yes(CLOSED), yes(CLOSED), no(GREEN)], HONEST[1]),
        # what the answer does not say
        (HONEST[0], [*HONEST[1], no("The bridge was long."), no("The bridge was new.")]),
    ],
    ids=["split finely", "split coarsely", "left out", "said twice", "made up"],
)
def test_how_answers_are_split_decides_their_order_and_no_reward_sees_it(
    better: list[Claim], worse: list[Claim]
) -> None:
    assert earned(better, worse)["score"] == 1.5
    assert earned(worse, better)["score"] == 0.0  # it pays where it follows α, so it is learned


RIGHT = [yes(CLOSED)], [no(RED)]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ([yes(CLOSED, SECOND)], [no(RED)]),  # quotes another sentence
        ([yes(CLOSED, PASSAGE)], [no(RED)]),  # quotes everything
        ([yes(CLOSED, analysis="Fine.")], [no(RED, analysis="Fine.")]),  # explains all claims with the same words
        ([yes(CLOSED, analysis="")], [no(RED, analysis="")]),  # and with none
    ],
    ids=["unrelated quote", "whole passage", "same analysis", "no analysis"],
)
def test_quotes_and_analyses_that_explain_nothing_earn_what_good_ones_do(
    better: list[Claim], worse: list[Claim]
) -> None:
    assert earned(better, worse)["score"] == earned(*RIGHT)["score"] == 1.5


LONG = BETTER + " It stood for long."


@pytest.mark.parametrize("preferred", [BETTER, LONG, FIRST], ids=["position", "length", "overlap"])
def test_a_verdict_by_what_can_be_seen_is_paid_as_often_as_that_follows_alpha(preferred: str) -> None:
    """The answer shown first, the longer one, the one copied from the passage is judged right, and the other wrong."""
    assert earned(*RIGHT, answers=(preferred, WORSE))["score"] == 1.5
    assert earned(*RIGHT, answers=(preferred, WORSE), alphas=[-1.0, 0.0])["score"] == 0.0


@pytest.mark.parametrize("echoes", [("", ""), (BETTER, ""), (WORSE, BETTER)], ids=["empty", "one empty", "exchanged"])
def test_an_echo_that_is_not_the_answer_is_seen(echoes: tuple[str, str]) -> None:
    assert earned(*RIGHT, echoes=echoes) == {**failed(), "echo_differs": 1.0}


class Letters:
    """A tokenizer with a token for each character, as byte-level models have it."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


@pytest.mark.parametrize("tokenize", [PolicyTokens(Letters()), str.split], ids=["letters", "words"])
def test_a_quote_without_its_spaces_is_seen(tokenize: Any) -> None:
    parts = earned([yes(CLOSED, FIRST.replace(" ", ""))], [no(RED)], tokenize=tokenize)
    assert parts["evidence"] < 0.2 and parts["score"] == 1 + 0.5 * parts["evidence"]
