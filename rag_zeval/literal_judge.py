"""What a judge says that goes by the letter: a statement follows from a text exactly if its sentence stands in it.

It knows every prompt of the scorers and RAG-Zeval's own, so whole runs can be tried, and their costs compared, without
a model: `python -m rag_zeval.scripted_judge --literal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rag_zeval.judge.prompt import EVIDENCE, INPUTS, VARIANTS, Variant
from rag_zeval.scorers.asking import ScorerPrompt


def literal_reply(body: Mapping[str, Any]) -> str | None:
    """The reply to the body of a chat request; None to a prompt that is none of ours."""
    try:
        prompt, inputs = read_prompt(body["messages"][0]["content"])
    except ValueError:
        return None
    said = LITERAL[prompt](inputs)
    return said if isinstance(said, str) else json.dumps(said)


def read_prompt(content: str) -> tuple[str, dict[str, Any]]:
    """The name of the prompt that a message holds, and the inputs in it. Raises ValueError if it is none of ours."""
    for prompt in (*(ScorerPrompt(path.stem) for path in ScorerPrompt.folder.glob("*.txt")), *VARIANTS.values()):
        before, after = prompt.template.split(INPUTS)
        if content.startswith(before) and content.endswith(after):
            return prompt.name, json.loads(content[len(before) : len(content) - len(after)])
    raise ValueError(f"no prompt of ours: {content[:80]}")


def count_tokens(text: str) -> int:
    """Words and punctuation marks: near enough to compare scorers by, and the same for every model."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def sentences(text: str) -> list[str]:
    """A text's sentences, without their full stops and citations."""
    return [part.strip() for part in re.sub(r"\[\d+\]", "", text).replace("\n", " ").split(".") if part.strip()]


def _share_of(text: str, *others: str) -> float:
    """The share of a text's sentences that stand in the others."""
    there = sentences(" ".join(others))
    return sum(one in there for one in sentences(text)) / max(1, len(sentences(text)))


def _scoring(score: int) -> dict[str, Any]:
    return {"criteria": "so", "supporting_evidence": "so", "score": score}


def _holds(statement: str, text: str) -> bool:
    return all(one in sentences(text) for one in sentences(statement))


def _verdict(statement: str, label: str) -> str:
    return f"- {statement} It is so. VERDICT: {label}\n"


def _trajectory(variant: Variant, given: dict[str, Any]) -> list[dict[str, Any]]:
    there = sentences(given["reference"])
    candidates = []
    for letter, answer in given["candidates"].items():
        found = {one: one in there for one in sentences(answer)}
        fields = [
            {"claim": one, "is_supported": held, EVIDENCE: [one] * held, "analysis": "so"}
            for one, held in found.items()
        ]
        claims = [{name: claim[name] for name in variant.claim_fields} for claim in fields]
        echo = {"answer": answer} if variant.echo_answer else {}
        candidates.append({"id": letter, **echo, "atomic_claims": claims})
    return candidates


LITERAL: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{name: partial(_trajectory, variant) for name, variant in VARIANTS.items()},
    "ragchecker_claims": lambda given: [[one, "is", "so"] for one in sentences(given["text"])],
    "ragchecker_check": lambda given: [
        "Entailment" if claim[0] in sentences(given["reference"]) else "Neutral" for claim in given["claims"]
    ],
    "ragas_statements": lambda given: {"statements": sentences(given["answer"])},
    "ragas_verdicts": lambda given: [
        {"statement": one, "reason": "so", "verdict": int(one in sentences(given["context"]))}
        for one in given["statements"]
    ],
    "ragas_question": lambda given: {"question": f"Which facts: {given['answer'][:8]}", "noncommittal": 0},
    "ragas_useful_chunk": lambda given: {
        "reason": "so",
        "verdict": int(any(one in sentences(given["answer"]) for one in sentences(given["context"]))),
    },
    "ragas_attributed": lambda given: [
        {"statement": one, "reason": "so", "attributed": int(one in sentences(given["context"]))}
        for one in sentences(given["answer"])
    ],
    "ragas_correctness": lambda given: {
        "TP": [{"statement": one, "reason": "so"} for one in given["answer"] if one in given["ground_truth"]],
        "FP": [{"statement": one, "reason": "so"} for one in given["answer"] if one not in given["ground_truth"]],
        "FN": [{"statement": one, "reason": "so"} for one in given["ground_truth"] if one not in given["answer"]],
    },
    "trulens_substantive": lambda given: {"keep": [int(number) for number in given["sentences"]]},
    "trulens_groundedness": lambda given: _scoring(3 * _holds(given["statement"], given["source"])),
    "trulens_answer_relevance": lambda given: _scoring(2),
    "trulens_context_relevance": lambda given: _scoring(min(3, len(sentences(given["context"])))),
    "ares_context_relevance": lambda given: "[[Yes]]",
    "ares_answer_faithfulness": lambda given: "[[Yes]]" if _holds(given["answer"], given["document"]) else "[[No]]",
    "ares_answer_relevance": lambda given: "[[Yes]]",
    "openeval_statements": lambda given: "".join(f"- {one}\n" for one in given["sentences"]),
    "openeval_faithfulness": lambda given: "".join(
        _verdict(one, "PASSED" if _holds(one, given["context"]) else "FAILED") for one in given["statements"]
    ),
    "openeval_correctness": lambda given: "".join(
        [
            *(_verdict(one, "TP" if one in given["ground_truth"] else "FP") for one in given["answer"]),
            *(_verdict(one, "FN") for one in given["ground_truth"] if one not in given["answer"]),
        ]
    ),
    "ccrs_cc": lambda given: {"score": 100 * _share_of(given["answer"], *given["context"])},
    "ccrs_qr": lambda given: {"score": min(100, 10 * len(sentences(given["answer"])))},
    "ccrs_id": lambda given: {"score": 100 * _share_of(" ".join(given["context"]), given["answer"])},
    "ccrs_ac": lambda given: {"score": 100 * _share_of(given["answer"], given["ground_truth"])},
    "ccrs_ir": lambda given: {"score": 100 * _share_of(given["ground_truth"], given["answer"])},
    "is_correct": lambda given: {
        "is_correct": _share_of(given["answer"], given["ground_truth_source"]) == 1,
        "reasoning": "so",
    },
    "umbrela": lambda given: {"intent": "so", "M": 3, "T": 3, "O": min(3, len(sentences(given["passage"])))},
    "nuggets_create": lambda given: {
        "nuggets": [*dict.fromkeys(sentences(" ".join(given["context"])))][: given["at_most"]]
    },
    "nuggets_importance": lambda given: {"labels": ["vital"] * len(given["nuggets"])},
    "nuggets_assignment": lambda given: {
        "labels": ["support" if one in sentences(given["answer"]) else "not_support" for one in given["nuggets"]]
    },
    "citation_support": lambda given: {"support": "full_support"},
    "answered": lambda given: {"answered": "yes"},
}
