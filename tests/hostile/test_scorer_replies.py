"""Replies to every scorer that asks a judge, in short: `make hostile` reads half a million."""

import functools
from collections import Counter

import pytest
from honest_judge import MEANT, verdicts
from judged_worlds import PROMPTS, SCORERS, bench, honest_reply, world
from reply_forms import Kind, Said, any_prompt, spelt
from scorer_replies import KINDS, Key, all_once, check, play, tried, wanted

from rag_zeval.models.language_model import Reply


@functools.cache
def attacked() -> tuple[Counter[Key], list[str]]:
    return check(seed=1, numbers=range(all_once()))


def test_no_scorer_makes_up_a_score() -> None:
    _, faults = attacked()
    assert not faults, f"{len(faults)} faults, of which:\n" + "\n".join(faults[:: max(1, len(faults) // 20)])


def test_every_scorer_meets_every_kind_of_reply() -> None:
    counts, _ = attacked()
    assert tried(counts) == wanted()
    assert {kind for _, kind in wanted()} == {kind.name for kind in KINDS}
    assert not [key for key in counts if key[2] == "unknown" and counts[key] > 5]


def test_whole_replies_are_read_by_every_scorer() -> None:
    counts, _ = attacked()
    whole = {kind.name for kind in KINDS if kind.end == "whole"}
    assert whole and not [key for key in counts if key[1] in whole and key[2] != "read"]


def test_the_honest_judge_knows_no_prompt_that_no_scorer_has() -> None:
    assert {*MEANT} <= {prompt.name for prompts in PROMPTS.values() for prompt in prompts}


@pytest.mark.parametrize("scorer", SCORERS)
def test_honest_values_differ_and_every_reply_counts(scorer: str) -> None:
    """An oracle that knew one value alone, or replaced replies that nothing depends on, would see no fault."""
    worlds = [world(scorer, f"differ {at}", True) for at in range(6)]
    assert len({here.honest for here in worlds}) > 1
    for here in worlds:
        assert all(here.dependent(ask) for ask in here.asks)
        assert all(verdicts(ask.other) != verdicts(ask.meant) for ask in here.asks)


def test_the_oracle_sees_a_score_that_was_not_meant() -> None:
    """Drafts for replies: most of them change a value, and none of them may where there is no evaluation."""
    for end in ("honest or none", "none"):
        other = Kind("another evaluation, bare", end, any_prompt, lambda rng, ask: spelt(ask.other))
        ends = Counter(play(scorer, other, "seen").end for scorer in SCORERS)
        # one evaluation has no value: recall where no chunk is relevant
        assert ends["made up"] >= (len(SCORERS) - 1 if end == "none" else len(SCORERS) // 2)
    same = Kind("bare", "whole", any_prompt, lambda rng, ask: spelt(ask.meant), plain=True)
    assert {play(scorer, same, "seen").end for scorer in SCORERS} == {"read"}


def test_an_exception_is_a_fault_and_the_next_case_is_played() -> None:
    def fail(rng: object, ask: object) -> Said:
        return Said(3)  # type: ignore[arg-type]

    scorer = SCORERS[0]
    assert play(scorer, Kind("no text", "none", any_prompt, fail), "raised").end == "raised"
    here = world(scorer, "raised", True)
    assert bench(scorer).score(here.example, lambda request: honest_reply(here.ask(request))).values == here.honest


def test_a_reply_that_does_not_come_is_no_value() -> None:
    for scorer in SCORERS:
        here = world(scorer, "lost", True)
        assert set(bench(scorer).score(here.example, lambda _: Reply(None, "failed: lost")).values) == {None}
