"""The judge's replies to prompts that the packages sent (prompts.json): each package's format, one rule."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.peers.word_judge import PEER_PROMPTS, word_reply
from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scripted_judge import ScriptedJudge

RECORDED: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "prompts.json").read_text())
PASSAGE = "Ann was born in Bonn in 1950. She studied law."
TRUE, FALSE = "Ann was born in Bonn.", "Ann married Carl Meyer."


def sent(package: str, number: int, **changes: str) -> str:
    """The reply to a recorded prompt in which texts are replaced: by the name of what its pattern finds."""
    body = RECORDED[package][number]
    prompt = "\n".join(message["content"] for message in body["messages"])
    found = re.search([*PEER_PROMPTS[package]][number], prompt, re.DOTALL)
    assert found
    for name, text in sorted(changes.items(), key=lambda change: -found.start(change[0])):
        prompt = prompt[: found.start(name)] + text + prompt[found.end(name) :]
    reply = word_reply({"messages": [{"role": "user", "content": prompt}]})
    assert reply is not None
    return reply


def test_every_prompt_is_recorded_and_answered_as_it_was() -> None:
    assert {name: len(prompts) for name, prompts in PEER_PROMPTS.items()} == {k: len(v) for k, v in RECORDED.items()}
    for prompts in RECORDED.values():
        for one in prompts:
            assert word_reply(one) == one["reply"]


def test_ragas() -> None:
    statements = sent("ragas", 0, input=json.dumps({"question": "Who?", "answer": f"{TRUE} {FALSE}"}))
    assert json.loads(statements) == {"statements": [TRUE, FALSE]}
    verdicts = sent("ragas", 1, input=json.dumps({"context": PASSAGE, "statements": [FALSE, TRUE]}))
    assert [one["verdict"] for one in json.loads(verdicts)["statements"]] == [0, 1]


def test_ragchecker() -> None:
    triplets = sent("ragchecker", 0, text=f'{TRUE} "{FALSE}"').splitlines()
    assert [len(ast.literal_eval(line)) for line in triplets] == [3, 3]  # its own parser evaluates them
    labels = sent("ragchecker", 1, reference=PASSAGE, claims=f'("{TRUE}", "is", "so")\n("{FALSE}", "is", "so")')
    assert labels.splitlines() == ["Entailment", "Neutral"]


def test_trulens() -> None:
    assert ast.literal_eval(sent("trulens", 0, statements=repr([TRUE, FALSE]))) == [TRUE, FALSE]
    scores = [json.loads(sent("trulens", 1, source=PASSAGE, statement=one))["score"] for one in (TRUE, FALSE)]
    assert scores == [3, 1]  # the name alone is in the passage
    assert json.loads(sent("trulens", 2, question="Where was Ann born?", response=TRUE))["score"] == 3


def test_open_rag_eval() -> None:
    assert json.loads(sent("open-rag-eval", 0, question="Where was Ann born?", passage=PASSAGE)) == {"score": "3"}
    nuggets = json.loads(sent("open-rag-eval", 1, context=f"[1] {TRUE}\n[2] {FALSE}"))["nuggets"]
    assert nuggets == [TRUE[:-1], FALSE[:-1]]
    assert json.loads(sent("open-rag-eval", 2, nuggets=repr(nuggets))) == {"importance": ["vital", "vital"]}
    labels = json.loads(sent("open-rag-eval", 3, nuggets=repr(nuggets), answer=PASSAGE))
    assert labels == {"assignment": ["support", "not_support"]}
    assert json.loads(sent("open-rag-eval", 4, statement=TRUE, passage=PASSAGE)) == {"support": "full_support"}


def test_deepeval() -> None:
    assert json.loads(sent("deepeval", 0, answer=TRUE)) == {"claims": [TRUE]}
    truths = ["Ann was born in Bonn in 1950.", "She studied law."]
    assert json.loads(sent("deepeval", 1, answer=PASSAGE)) == {"truths": truths}
    verdicts = json.loads(sent("deepeval", 2, context=PASSAGE, statements=repr([TRUE, FALSE])))["verdicts"]
    assert [one["verdict"] for one in verdicts] == ["yes", "no"]


@pytest.mark.parametrize("variant", ["paper", "compact"])
def test_our_own_prompt(scripted_judge: ScriptedJudge, variant: str) -> None:
    scripted_judge.replies = word_reply
    evaluator = Evaluator(OpenAIBackend("judge", scripted_judge.url), variant=variant)
    assert evaluator.evaluate("Who is Ann?", PASSAGE, [f"{TRUE} {FALSE}"]).scores == [0.5]


def test_another_prompt_has_no_reply() -> None:
    assert word_reply({"messages": [{"role": "user", "content": "Tell me a story."}]}) is None
    assert word_reply({"input": "a text"}) is None
