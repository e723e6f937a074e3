"""The mock judge's rule: a statement is supported if its exact sentence occurs in the text.

It answers every prompt in this package: RAG-Zeval's own, those of the scorers, and those that write test sets. So a
whole run can be tried, and its cost estimated, without a model. `rag-zeval mock-judge` serves it (`scripted_judge`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from rag_zeval.judge.prompt import CRITERIA, EVIDENCE, INPUTS, RANKING, VARIANTS, Variant
from rag_zeval.judge.words import words
from rag_zeval.text import OTHER_ENDS

DIMENSIONS = 64  # of a word vector


def literal_reply(body: Mapping[str, Any]) -> str | None:
    """Return the mock judge's reply to the body of a chat request: JSON or plain text, as the prompt asks.

    Returns None if the body is not valid, or if its prompt is not one of this package.
    """
    try:
        prompt, inputs = read_prompt(said_in(body))
    except ValueError:
        return None
    said = LITERAL[prompt](inputs)
    return said if isinstance(said, str) else json.dumps(said)


def said_in(body: Any) -> str:
    """Return the texts of a chat request's messages. Raises ValueError unless each message has a text."""
    try:
        return "\n".join(message["content"] for message in body["messages"])
    except (LookupError, TypeError) as error:
        raise ValueError("no chat request") from error


def read_prompt(content: str) -> tuple[str, dict[str, Any]]:
    """Return the name of the prompt that a message was made from, and its inputs. Raises ValueError if there is none.

    The content of a criteria file is one of the inputs: "criteria".
    """
    for name, (before, *between, after) in _prompts().items():
        if content.startswith(before) and content.endswith(after):
            shown = content[len(before) : len(content) - len(after)]
            if between:
                criteria, _, inputs = shown.partition(*between)
                return name, {"criteria": json.loads(criteria), **json.loads(inputs)}
            return name, json.loads(shown)
    raise ValueError(f"not a prompt of this package: {content[:80]}")


@cache
def _prompts() -> dict[str, list[str]]:
    """Return, by name, each prompt's text before, between and after its placeholders. The ranker's is left out."""
    paths = Path(__file__).parent.glob("*/prompts/*.txt")
    filled = re.compile("|".join(map(re.escape, (CRITERIA, INPUTS))))
    return {path.stem: filled.split(path.read_text("utf-8").strip()) for path in paths if path.stem != RANKING.name}


def count_tokens(text: str) -> int:
    """Count words and punctuation marks: a rough token count that does not depend on a model's tokenizer."""
    return len(words(text))


def word_vector(text: str) -> list[float]:
    """Return word counts, hashed into DIMENSIONS places. Texts that share words have a high cosine similarity."""
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        vector[hashlib.sha256(word.encode("utf-8", "replace")).digest()[0] % DIMENSIONS] += 1.0
    return vector


def sentences(text: str) -> list[str]:
    """Split a text into sentences, without full stops and citations such as [1]."""
    parts = re.split(f"[.{OTHER_ENDS}]", re.sub(r"\[\d+\]", "", text).replace("\n", " "))
    return [part.strip() for part in parts if part.strip()]


def _share_of(text: str, *others: str) -> float:
    """Return the share of a text's sentences that occur in the other texts, in [0, 1]."""
    known = sentences(" ".join(others))
    return sum(sentence in known for sentence in sentences(text)) / max(1, len(sentences(text)))


def _by_criteria(inputs: dict[str, Any]) -> dict[str, Any]:
    """Reply with the share of the answer's sentences that occur in the other texts, mapped to the criteria's scale.

    Without a scale, the verdict is "yes" if all sentences occur there, else "no". Without other texts, the share is 1
    divided by the number of the answer's sentences.
    """
    answer, known = inputs.get("answer", ""), [*inputs.get("contexts", ())]
    known += [inputs[name] for name in ("truth", "reference") if name in inputs]
    share = _share_of(answer, *known) if known else 1 / max(1, len(sentences(answer)))
    levels = [int(level) for level in inputs["criteria"].get("scale", ())]
    verdict = round(min(levels) + share * (max(levels) - min(levels))) if levels else "yes" if share == 1 else "no"
    return {"reason": "so", "verdict": verdict}


def _scoring(score: int) -> dict[str, Any]:
    return {"criteria": "so", "supporting_evidence": "so", "score": score}


def _reasoned(statements: Iterable[str]) -> list[dict[str, str]]:
    return [{"statement": statement, "reason": "so"} for statement in statements]


def _holds(statement: str, text: str) -> bool:
    """Whether a text contains every sentence of a statement."""
    return all(sentence in sentences(text) for sentence in sentences(statement))


def _verdict(statement: str, label: str) -> str:
    return f"- {statement} It is so. VERDICT: {label}\n"


def _new_sentence(passage: str, asked: list[str]) -> str | None:
    """Return the first sentence of a passage that no question contains; None if there is none."""
    return next(
        (sentence for sentence in sentences(passage) if not any(sentence in question for question in asked)), None
    )


def _easy_question(inputs: dict[str, Any]) -> dict[str, Any]:
    sentence = _new_sentence(inputs["passage"], inputs["asked"])
    return {"question": sentence and f"Is it so that {sentence}?", "answer": sentence, "snippet": sentence}


def _multi_hop_question(inputs: dict[str, Any]) -> dict[str, Any]:
    first, second = (next(iter(sentences(passage)), None) for passage in inputs["passages"])
    if first is None or second is None:
        return {"question": None}
    question = f"What if {first}, and {second}?"
    return {"question": question, "answer": f"{first}. {second}.", "snippets": [first, second]}


def _unanswerable_question(inputs: dict[str, Any]) -> dict[str, Any]:
    sentence = _new_sentence(inputs["passage"], inputs["asked"])
    return {"question": sentence and f"Who has denied that {sentence}?"}


def _trajectory(variant: Variant, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    known = sentences(inputs["reference"])
    candidates = []
    for letter, answer in inputs["candidates"].items():
        is_supported = {sentence: sentence in known for sentence in sentences(answer)}
        fields = [
            {"claim": sentence, "is_supported": supported, EVIDENCE: [sentence] * supported, "analysis": "so"}
            for sentence, supported in is_supported.items()
        ]
        claims = [{name: claim[name] for name in variant.claim_fields} for claim in fields]
        echo = {"answer": answer} if variant.echo_answer else {}
        candidates.append({"id": letter, **echo, "atomic_claims": claims})
    return candidates


class _Replies(dict[str, Callable[[dict[str, Any]], Any]]):
    """Reply functions by prompt. Any other prompt of ours gets the reply that it shows: `such as {"score": 35}`."""

    def __missing__(self, prompt: str) -> Callable[[dict[str, Any]], Any]:
        shown = re.search(r"such as (\{.*?\})", "".join(_prompts()[prompt]))
        assert shown, f"prompt {prompt} must show a reply: such as {{...}}"
        reply = json.loads(shown[1])
        return lambda inputs: reply


_LISTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{name: partial(_trajectory, variant) for name, variant in VARIANTS.items()},
    "ragchecker_claims": lambda inputs: [[sentence, "is", "so"] for sentence in sentences(inputs["text"])],
    "ragchecker_check": lambda inputs: [
        "Entailment" if claim[0] in sentences(inputs["reference"]) else "Neutral" for claim in inputs["claims"]
    ],
    "ragas_statements": lambda inputs: {"statements": sentences(inputs["answer"])},
    "ragas_verdicts": lambda inputs: [
        {"statement": sentence, "reason": "so", "verdict": int(sentence in sentences(inputs["context"]))}
        for sentence in inputs["statements"]
    ],
    "ragas_question": lambda inputs: {"question": f"Which facts: {inputs['answer'][:8]}", "noncommittal": 0},
    "ragas_useful_chunk": lambda inputs: {
        "reason": "so",
        "verdict": int(any(sentence in sentences(inputs["answer"]) for sentence in sentences(inputs["context"]))),
    },
    "ragas_attributed": lambda inputs: [
        {"statement": sentence, "reason": "so", "attributed": int(sentence in sentences(inputs["context"]))}
        for sentence in sentences(inputs["answer"])
    ],
    "ragas_correctness": lambda inputs: {
        "TP": _reasoned(sentence for sentence in inputs["answer"] if sentence in inputs["ground_truth"]),
        "FP": _reasoned(sentence for sentence in inputs["answer"] if sentence not in inputs["ground_truth"]),
        "FN": _reasoned(sentence for sentence in inputs["ground_truth"] if sentence not in inputs["answer"]),
    },
    "trulens_substantive": lambda inputs: {"keep": [int(number) for number in inputs["sentences"]]},
    "trulens_groundedness": lambda inputs: _scoring(3 * _holds(inputs["statement"], inputs["source"])),
    "trulens_answer_relevance": lambda inputs: _scoring(2),
    "trulens_context_relevance": lambda inputs: _scoring(min(3, len(sentences(inputs["context"])))),
    "ares_context_relevance": lambda inputs: "[[Yes]]",
    "ares_answer_faithfulness": lambda inputs: "[[Yes]]" if _holds(inputs["answer"], inputs["document"]) else "[[No]]",
    "ares_answer_relevance": lambda inputs: "[[Yes]]",
    "openeval_statements": lambda inputs: "".join(f"- {sentence}\n" for sentence in inputs["sentences"]),
    "openeval_faithfulness": lambda inputs: "".join(
        _verdict(sentence, "PASSED" if _holds(sentence, inputs["context"]) else "FAILED")
        for sentence in inputs["statements"]
    ),
    "openeval_correctness": lambda inputs: "".join(
        [
            *(
                _verdict(sentence, "TP" if sentence in inputs["ground_truth"] else "FP")
                for sentence in inputs["answer"]
            ),
            *(_verdict(sentence, "FN") for sentence in inputs["ground_truth"] if sentence not in inputs["answer"]),
        ]
    ),
    "ccrs_cc": lambda inputs: {"score": 100 * _share_of(inputs["answer"], *inputs["context"])},
    "ccrs_qr": lambda inputs: {"score": min(100, 10 * len(sentences(inputs["answer"])))},
    "ccrs_id": lambda inputs: {"score": 100 * _share_of(" ".join(inputs["context"]), inputs["answer"])},
    "ccrs_ac": lambda inputs: {"score": 100 * _share_of(inputs["answer"], inputs["ground_truth"])},
    "ccrs_ir": lambda inputs: {"score": 100 * _share_of(inputs["ground_truth"], inputs["answer"])},
    "is_correct": lambda inputs: {
        "is_correct": _share_of(inputs["answer"], inputs["ground_truth_source"]) == 1,
        "reasoning": "so",
    },
    "umbrela": lambda inputs: {"intent": "so", "M": 3, "T": 3, "O": min(3, len(sentences(inputs["passage"])))},
    "nuggets_create": lambda inputs: {
        "nuggets": [*dict.fromkeys(sentences(" ".join(inputs["context"])))][: inputs["at_most"]]
    },
    "nuggets_importance": lambda inputs: {"labels": ["vital"] * len(inputs["nuggets"])},
    "nuggets_assignment": lambda inputs: {
        "labels": [
            "support" if sentence in sentences(inputs["answer"]) else "not_support" for sentence in inputs["nuggets"]
        ]
    },
    "citation_support": lambda inputs: {"support": "full_support"},
    "answered": lambda inputs: {"answered": "yes"},
    "criteria": _by_criteria,
    "question_easy": _easy_question,
    "question_multi_hop": _multi_hop_question,
    "question_unanswerable": _unanswerable_question,
    "question_answered": lambda inputs: {"answered": any(_holds(inputs["question"], p) for p in inputs["passages"])},
}
LITERAL = _Replies(_LISTED)
