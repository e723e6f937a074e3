"""A judge without a model that answers the prompts of the other packages (peers) and ours by the same rule.

The rule is that of the scorer `word_majority`, but without the question, which many prompts do not contain. The claims
of a text are its clauses. A claim is supported if at least half of its content words occur in the text that it is
checked against. Each prompt of a peer has a counterpart among ours. So the judge reads the inputs from the peer's
prompt, decides as for our prompt, and writes the decision in the format that the peer expects.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rag_zeval.judge.parser import as_reply
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.literal_judge import LITERAL, read_prompt
from rag_zeval.scorers.word_rule import STRICTNESS, content_words, judge_by_words

LEAST = STRICTNESS[0]
Inputs = dict[str, Any]
Found = dict[str, str]


def word_reply(body: Mapping[str, Any]) -> str | None:
    """Return the reply to the body of a chat request. None if the prompt is neither ours nor a known one of a peer."""
    if "messages" not in body:
        return None  # not a chat request
    contents = [message["content"] for message in body["messages"]]
    try:
        said = _decide(*read_prompt(contents[0]))
    except ValueError:
        said = _peer_reply("\n".join(contents))
    return said if said is None or isinstance(said, str) else json.dumps(said)


def _decide(prompt: str, inputs: Mapping[str, Any]) -> Any:
    """Return the reply to one of our prompts, before it is written as JSON."""
    return (DECISIONS.get(prompt) or LITERAL[prompt])(dict(inputs))


def _claims(text: str) -> list[str]:
    (judged,) = judge_by_words("", "", [text], LEAST)
    return [claim.claim for claim in judged.atomic_claims]


def _share(statement: str, text: str) -> float:
    """Return the share of a statement's content words that occur in a text, in [0, 1]."""
    words, known = content_words(statement), content_words(text)
    return sum(word in known for word in words) / max(1, len(words))


def _grade(statement: str, text: str) -> int:
    return round(3 * _share(statement, text))


def _support(statement: str, text: str, none: str) -> str:
    share = _share(statement, text)
    return "full_support" if share == 1 else "partial_support" if share >= LEAST else none


def _graded(grade: int) -> dict[str, Any]:
    return {"criteria": "so", "supporting_evidence": "so", "score": grade}


def _trajectory(variant: str, inputs: Inputs) -> str:
    answers = inputs["candidates"].values()
    judged = judge_by_words("", inputs["reference"], [*answers], LEAST)
    return as_reply(tuple(replace(one, answer=answer) for one, answer in zip(judged, answers, strict=True)), variant)


def _in_a_triplet(claim: str) -> str:
    """Return a claim on one line, without the characters that refchecker's parser takes for the end of a triplet."""
    return " ".join(re.sub(r"[\"()\[\]{}\\]", " ", claim).split())


DECISIONS: dict[str, Callable[[Inputs], Any]] = {
    **{variant: partial(_trajectory, variant) for variant in VARIANTS},
    "ragas_statements": lambda inputs: {"statements": _claims(inputs["answer"])},
    "ragas_verdicts": lambda inputs: [
        {"statement": one, "reason": "so", "verdict": int(_share(one, inputs["context"]) >= LEAST)}
        for one in inputs["statements"]
    ],
    "ragchecker_claims": lambda inputs: [[_in_a_triplet(claim), "is", "so"] for claim in _claims(inputs["text"])],
    "ragchecker_check": lambda inputs: [
        "Entailment" if _share(claim[0], inputs["reference"]) >= LEAST else "Neutral" for claim in inputs["claims"]
    ],
    "trulens_groundedness": lambda inputs: _graded(_grade(inputs["statement"], inputs["source"])),
    "trulens_answer_relevance": lambda inputs: _graded(_grade(inputs["question"], inputs["response"])),
    "umbrela": lambda inputs: {"intent": "so", "M": 3, "T": 3, "O": _grade(inputs["question"], inputs["passage"])},
    "nuggets_assignment": lambda inputs: {
        "labels": [_support(one, inputs["answer"], "not_support").replace("full_", "") for one in inputs["nuggets"]]
    },
    "citation_support": lambda inputs: {"support": _support(inputs["statement"], inputs["passage"], "no_support")},
}


def _ragas(found: Found) -> Inputs:
    return dict(json.loads(found["input"]))


def _listed(found: Found, key: str) -> Inputs:
    """Return the inputs with the one under `key` read as a Python list, which is how the prompt shows it."""
    return {**found, key: ast.literal_eval(found[key])}


def _triplets(found: Found) -> Inputs:
    return {**found, "claims": re.findall(r'\("(.*)", "(.*)", "(.*)"\)', found["claims"])}


def _passages(found: Found) -> Inputs:
    passages = re.split(r"^\s*\[\d+\] ", found["context"], flags=re.MULTILINE)[1:]
    return {"context": passages, "at_most": int(found["at_most"])}


def _verdict(supported: bool) -> dict[str, str]:
    return {"verdict": "yes"} if supported else {"verdict": "no", "reason": "so"}


# The prompts of each peer: a pattern that matches only this prompt, and the reply to what its named groups contain.
PEER_PROMPTS: dict[str, dict[str, Callable[[Found], Any]]] = {
    "ragas": {
        r'\ninput: (?P<input>\{\s*"question".*\})\s*Output:\s*$': lambda found: _decide(
            "ragas_statements", _ragas(found)
        ),
        r'\ninput: (?P<input>\{\s*"context".*\})\s*Output:\s*$': lambda found: {
            "statements": _decide("ragas_verdicts", _ragas(found))
        },
        # a request to fix a reply, which includes the original prompt: gives the right reply to that prompt
        r"\ninput: (?P<input>\{\s*\"output_string\".*\})\s*Output:\s*$": lambda found: {
            "text": json.dumps(_peer_reply(_ragas(found)["prompt_value"]))
        },
    },
    "ragchecker": {
        r".*### Question:\n(?P<question>.*)\n\n### Candidate Answer:\n(?P<text>.*)\n\n### KG:\n$": lambda found: (
            "\n".join('("{}", "{}", "{}")'.format(*claim) for claim in _decide("ragchecker_claims", found)) or "Abstain"
        ),
        r"### Reference:\n(?P<reference>.*)\n\n### Claims:\n(?P<claims>.*)\n\n\nYour answer": lambda found: "\n".join(
            _decide("ragchecker_check", _triplets(found))
        ),
    },
    "trulens": {
        r"\nALL STATEMENTS: (?P<statements>\[.*\])\n": lambda found: found["statements"],
        r"\nSOURCE: (?P<source>.*)\n\nSTATEMENT: (?P<statement>.*)\n\n\n?(?:Respond|Please) ": lambda found: _decide(
            "trulens_groundedness", found
        ),
        r"\nPROMPT: (?P<question>.*)\n\nRESPONSE: (?P<response>.*)\n\n\nPlease evaluate": lambda found: _decide(
            "trulens_answer_relevance", found
        ),
        # a request to fix a reply, without the original prompt: fixes the format, but the score is lost
        r"Convert the following text into a strict JSON object": lambda found: _graded(0),
    },
    "open-rag-eval": {
        r"\n *Query: (?P<question>[^\n]*)\n *Passage: (?P<passage>.*)\n *Split this problem": lambda found: {
            "score": str(_decide("umbrela", found)["O"])
        },
        r"at most (?P<at_most>\d+) nuggets.*\n *Context:\n(?P<context>.*)\n\n *Initial Nugget List: ": lambda found: (
            _decide("nuggets_create", _passages(found))
        ),
        r"\bvital or okay\b.*\n *Nugget List: (?P<nuggets>\[.*?\])\n": lambda found: {
            "importance": _decide("nuggets_importance", _listed(found, "nuggets"))["labels"]
        },
        r"\n *Passage: (?P<answer>.*)\n\n *Nugget List: (?P<nuggets>\[.*?\])\n": lambda found: {
            "assignment": _decide("nuggets_assignment", _listed(found, "nuggets"))["labels"]
        },
        r"\n *Statement: (?P<statement>.*)\n\n *Citation: (?P<passage>.*?)\s*$": lambda found: _decide(
            "citation_support", found
        ),
        "an attempt to answer the question": lambda found: _decide("answered", found),
    },
    "deepeval": {
        r"\nAI Output:\n(?P<answer>.*)\n\nJSON:": lambda found: {
            "claims": _decide("ragas_statements", found)["statements"]
        },
        r'"truths" key.*\nText:\n(?P<answer>.*)\n\nJSON:': lambda found: {
            "truths": _decide("ragas_statements", found)["statements"]
        },
        r"\nRetrieval Contexts:\n(?P<context>.*)\n\nClaims:\n(?P<statements>\[.*\])\n\nJSON:": lambda found: {
            "verdicts": [_verdict(one["verdict"]) for one in _decide("ragas_verdicts", _listed(found, "statements"))]
        },
        r"\nContradictions:\n": lambda found: {"reason": "so"},
    },
}


def _peer_reply(prompt: str) -> Any:
    for prompts in PEER_PROMPTS.values():
        for pattern, reply in prompts.items():
            if found := re.search(pattern, prompt, re.DOTALL):
                return reply(found.groupdict())
    return None
