"""The driver: rounds, failures and accounting, with scorers made for the test."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from judge_by_prompt import JudgeByPrompt, Vectors

from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.scorers.asking import AskingScorer, Found, Judge, Measure, ScorerPrompt, together
from rag_zeval.scorers.score import Scored

PROMPT = ScorerPrompt("ragas_statements")


class Model(JudgeByPrompt):
    """Replies to a number with ten times that, or with its fate."""

    def __init__(self, fates: dict[int, Reply] | None = None):
        super().__init__({PROMPT.name: lambda inputs: (fates or {}).get(inputs["n"], [10 * inputs["n"]])})

    @property
    def batches(self) -> list[list[int]]:
        return [sorted(inputs["n"] for _, inputs in batch) for batch in self.rounds]


async def number(judge: Judge, n: int) -> int:
    return await judge.ask(PROMPT, lambda value: int(value[0]), n=n)


async def chain(judge: Judge, example: Example, answer: str) -> Found:
    """As many questions, one after the other, as the answer has words; the value is the sum of the replies."""
    total = 0
    for at in range(len(answer.split())):
        total += await number(judge, 100 * int(example.id) + at)
    return Found(total, {"words": len(answer.split())})


def run(steps: Any, judge: Any, *examples: Example, **more: Any) -> dict[str, Scored]:
    scorer = AskingScorer(Measure("test", steps, (PROMPT,), ()), judge, Sampling(max_tokens=9), **more)
    scored = list(scorer.score(examples))
    assert sorted(one.id for one in scored) == sorted(example.id for example in examples)
    return {one.id: one for one in scored}


def test_all_examples_go_on_together_and_each_ends_when_it_can() -> None:
    judge = Model()
    scored = run(chain, judge, Example("1", "q", "r", ("a b c",)), Example("2", "q", "r", ("a", "a b")))
    assert judge.batches == [[100, 200, 200], [101, 201], [102]]
    assert (scored["1"].values, scored["2"].values) == ((3030.0,), (2000.0, 4010.0))
    assert scored["2"].parts == {"answers": [{"words": 1}, {"words": 2}]}


def test_a_row_has_all_its_costs() -> None:
    retried = Reply("[0]", "ok", None, 2, calls=3, retries=2, seconds=4)
    kept = Reply("[0]", "ok", 3, 2, cached=True)
    scored = run(chain, Model({101: retried, 102: kept}), Example("1", "q", "r", ("a b c",)))["1"]
    assert (scored.calls, scored.retries, scored.cached, scored.failures, scored.seconds) == (4, 2, 1, 0, 4.5)
    assert (scored.prompt_tokens, scored.completion_tokens, scored.final) == (6, 6, True)
    assert Scored.from_row(scored.row()) == scored


@pytest.mark.parametrize(
    ("fate", "reason", "final"),
    [
        (Reply(None, "failed: HTTP 500: broken", calls=2), "failed: HTTP 500: broken", False),
        (Reply("[1", "truncated", 1, 9, calls=1), "failed: reply cut off at 9 tokens", True),
        (
            Reply("[1, 2", "ok", 1, 1, calls=1),
            "failed: ragas_statements: JSON that cannot be read (no value that can be read at '2'): '[1, 2'",
            True,
        ),
        (Reply("", "ok", 1, 1, calls=1), "failed: the reply is empty", True),
        (Reply("<think>hm</think>\n", "ok", 1, 1, calls=1), "failed: the reply is empty", True),
    ],
)
def test_a_failure_is_that_of_its_answer_and_only_a_lost_reply_is_asked_for_again(
    fate: Reply, reason: str, final: bool
) -> None:
    judge = Model({101: fate})
    scored = run(chain, judge, Example("1", "q", "r", ("a b c", "a")), Example("2", "q", "r", ("a b",)))
    assert [score.status for score in scored["1"].scores] == [reason, "ok"]
    assert (scored["1"].values, scored["1"].final, scored["1"].failures) == ((None, 1000.0), final, not final)
    assert scored["2"].values == (4010.0,)
    assert [102] not in judge.batches  # what would have come next is not asked


def test_json_that_is_all_there_counts_though_the_reply_was_cut_off() -> None:
    async def data(judge: Judge, example: Example, answer: str) -> Found:
        return Found(await number(judge, 0), {})

    cut = {0: Reply("[7]\n\nNote that bo", "truncated", 1, 9, calls=1)}
    assert run(data, Model(cut), Example("0", "q", "r", ("a",)))["0"].values == (7.0,)


def test_questions_together_share_a_round_and_fail_with_the_first_failure() -> None:
    async def wide(judge: Judge, example: Example, answer: str) -> Found:
        found = await together(number(judge, 1), chained(judge, 2, 3), number(judge, 20))
        return Found(sum(found) + await number(judge, 30), {})

    async def chained(judge: Judge, *numbers: int) -> int:
        return sum([await number(judge, n) for n in numbers])

    judge, example = Model(), Example("0", "q", "r", ("a",))
    assert run(wide, judge, example)["0"].values == (560.0,)
    assert judge.batches == [[1, 2, 20], [3], [30]]
    judge = Model({n: Reply(None, f"failed: lost {n}", calls=1) for n in (3, 20)})
    assert run(wide, judge, example)["0"].scores[0].status == "failed: lost 3"
    assert [30] not in judge.batches


def test_a_measure_asks_at_its_own_temperature_and_repeats_with_its_own_trials() -> None:
    async def warm(judge: Judge, example: Example, answer: str) -> Found:
        trials = (judge.ask(PROMPT, lambda value: int(value[0]), temperature=0.3, trial=t, n=1) for t in range(2))
        return Found(sum(await together(*trials)), {})

    judge = Model()
    run(warm, judge, Example("0", "q", "r", ("a",)))
    run(chain, judge, Example("0", "q", "r", ("a",)))
    found = [(r.sampling.temperature, r.trial, r.sampling.top_p, r.sampling.max_tokens) for r in judge.requests]
    assert found == [(0.3, 0, 1.0, 9), (0.3, 1, 1.0, 9), (0.0, 0, 1.0, 9)]


@pytest.mark.parametrize(
    ("answer", "value", "status"),
    [
        ("north", 0.0, "ok"),
        ("east", 1.0, "ok"),
        ("nowhere", None, "failed: embedding: a vector is zero or not finite, or they differ in length"),
        ("deep", None, "failed: embedding: a vector is zero or not finite, or they differ in length"),
        ("", None, "failed: embedding: HTTP 400"),
    ],
)
def test_vectors_and_replies_come_in_one_round(answer: str, value: float | None, status: str) -> None:
    async def mixed(judge: Judge, example: Example, answer: str) -> Found:
        both = await together(judge.similarity("east", answer), number(judge, 1))
        assert both[1] == 10
        return Found(both[0], {})

    known = {"east": (1.0, 0.0), "north": (0.0, 2.0), "nowhere": (0.0, 0.0), "deep": (1.0, 0.0, 0.0)}
    scored = run(mixed, Model(), Example("0", "q", "r", (answer,)), embedder=Vectors(known.get))["0"]
    assert (scored.values, scored.scores[0].status) == ((value,), status)
    assert (scored.calls, scored.prompt_tokens, scored.completion_tokens) == (3, 11, 2)
    assert scored.final is (answer != "")


def test_everything_that_can_change_a_value_is_in_the_identity() -> None:
    def scorer(name: str = "a", prompt: str = "ragas_verdicts", tokens: int = 9, judge: str = "j", vectors: str = "v"):
        backend, embedder = Model(), Vectors(lambda text: None)
        backend.identity, embedder.identity = judge, vectors
        measure = Measure(name, chain, (ScorerPrompt(prompt),), (), embeds=True)
        return AskingScorer(measure, backend, Sampling(max_tokens=tokens), embedder)  # type: ignore[arg-type]

    changed = [{}, {"name": "b"}, {"prompt": "ragas_statements"}, {"tokens": 8}, {"judge": "k"}, {"vectors": "w"}]
    assert len({scorer(**change).identity for change in changed}) == len(changed)  # type: ignore[arg-type]


def test_an_example_that_takes_too_long_is_asked_nothing_more_and_tried_again_by_the_next_run() -> None:
    class Late(Model):
        def replies_to(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
            for index, reply in super().replies_to(requests):
                time.sleep(0.06)
                yield index, reply

    judge = Late()
    scored = run(chain, judge, Example("1", "q", "r", ("a b c", "a")), timeout=0.05)["1"]
    assert [score.status for score in scored.scores] == ["failed: no score within 0.05 s", "ok"]
    assert (scored.values, scored.final, scored.failures, judge.batches) == ((None, 1000.0), False, 0, [[100, 100]])
