"""What TruLens' own measures say when their judge gives scores that are drawn by seed.

Run in the environment of requirements/parity/trulens.txt.
"""

from __future__ import annotations

import ast
import json
import random
import re
from typing import Any

from instances import make_instances, statement
from recording import record

SEED = 40
KINDS = (
    "mixed|all trivial|mixed|all kept|unreadable score|mixed|several numbers|all kept|mixed|score out of range|mixed|"
    "list in prose|all kept|invented sentence|mixed|number at the end|all kept|empty answer|mixed|all kept"
).split("|") * 2
SPOILED = {  # a judge's whole reply
    "unreadable score": '{"criteria": "so", "supporting_evidence": "so", "score": "high"}',
    "several numbers": "I waver between 1 and 2.",
    "score out of range": '{"criteria": "so", "supporting_evidence": "so", "score": 4}',
}
PROSE, INVENTED = "All of them matter.", "Nobody knows why."
SUBSTITUTED = (
    "nltk's trained English splitter of sentences, which is a download: its untrained one",
    "the provider: one that answers from this file",
)


def make_scored() -> list[dict[str, Any]]:
    """The texts of `instances.py` and, under "decisions", what a judge says.

    sentences: of the answer, each [text, kept or not, score]; keeps: what spoils the list of those kept, if anything;
    relevance: score of the answer; chunks: scores. A score is a number, or a judge's whole reply.
    """
    texts = make_instances()
    return [_instance(number, kind, texts[number % len(texts)]) for number, kind in enumerate(KINDS)]


def _instance(number: int, kind: str, texts: dict[str, Any]) -> dict[str, Any]:
    rng = random.Random(SEED * 1000 + number)
    facts = [statement(claim) for claim in texts["decisions"]["answer_claims"][:5]] or ["I do not know."]
    share = {"all trivial": 0.0, "mixed": 0.6}.get(kind, 1.0)
    answer = {"empty answer": [], "number at the end": [*facts, "1879."]}.get(kind, ["What a question!", *facts])
    sentences: list[list[Any]] = [[one, int(rng.random() < share), rng.randint(0, 3)] for one in dict.fromkeys(answer)]
    if kind == "mixed":
        sentences[-1][1] = 1
    relevance: Any = rng.randint(0, 3)
    chunks: list[Any] = [rng.randint(0, 3) for _ in texts["chunks"]]
    if kind in SPOILED:
        sentences[0][2] = relevance = chunks[0] = SPOILED[kind]
    return {
        "id": f"{number:02}",
        "kind": kind,
        "question": texts["question"],
        "answer": " ".join(text for text, _, _ in sentences),
        "truth": texts["truth"],
        "chunks": texts["chunks"],
        "decisions": {"sentences": sentences, "relevance": relevance, "chunks": chunks},
    }


def reply(instance: dict[str, Any], role: str, prompt: str) -> str:
    """The decision in the form that the prompt asks for."""
    decisions = instance["decisions"]
    if role.startswith("Convert the following text"):
        return prompt  # a reply that was no JSON does not become any
    if shown := re.search(r"^ALL STATEMENTS: (\[.*\])$", prompt, re.MULTILINE):
        keep = {text for text, kept, _ in decisions["sentences"] if kept}
        kept = [text for text in ast.literal_eval(shown[1]) if text in keep]
        invented = [INVENTED] if instance["kind"] == "invented sentence" else []
        return PROSE if instance["kind"] == "list in prose" else repr(kept + invented)
    if about := re.search("^STATEMENT: (.*)$", prompt, re.MULTILINE):
        score = {INVENTED: 0, **{text: score for text, _, score in decisions["sentences"]}}[about[1]]
    elif about := re.search("^SEARCH RESULT: (.*)$", prompt, re.MULTILINE):
        score = decisions["chunks"][instance["chunks"].index(about[1])]
    else:
        score = decisions["relevance"]
    found = {"criteria": "so", "supporting_evidence": "so", "score": score}
    return score if isinstance(score, str) else json.dumps(found)


def main() -> None:
    import nltk
    from nltk.tokenize import PunktSentenceTokenizer
    from trulens.core import BatchEvaluator, Metric, Selector
    from trulens.core.feedback.endpoint import Endpoint
    from trulens.feedback import generated, llm_provider

    class Provider(llm_provider.LLMProvider):
        def _create_chat_completion(self, prompt: Any = None, messages: Any = None, **_: Any) -> str:
            return reply(now, *(message["content"] for message in messages))

    nltk.download = lambda *args, **kwargs: True
    llm_provider.sent_tokenize = PunktSentenceTokenizer().tokenize
    judge = Provider(model_engine="judge", endpoint=Endpoint(name="judge", rpm=1_000_000))
    measures = {
        "trulens_groundedness": (
            judge.groundedness_measure_with_cot_reasons,
            {"source": "truth", "statement": "answer"},
        ),
        "trulens_answer_relevance": (judge.relevance_with_cot_reasons, {"prompt": "question", "response": "answer"}),
        "trulens_context_relevance": (
            judge.context_relevance_with_cot_reasons,
            {"question": "question", "context": "chunks"},
        ),
    }
    instances = make_scored()
    scores: dict[str, dict[str, float | None]] = {name: {} for name in measures}
    for name, (measure, columns) in measures.items():
        selectors = {one: Selector.from_column(column, collect_list=False) for one, column in columns.items()}
        evaluator = BatchEvaluator([Metric(name=name, implementation=measure, selectors=selectors)], max_workers=1)
        for now in instances:
            try:
                scores[name][now["id"]] = evaluator.evaluate([now])[name][0]
            except generated.ParseError:
                scores[name][now["id"]] = None
    record("trulens", ["trulens-feedback", "trulens-core", "nltk"], SUBSTITUTED, instances, scores)


if __name__ == "__main__":
    main()
