"""What TruLens' own measures say when their judge decides as `trulens.json` says.

Under "decisions": sentences of the answer, each [text, kept or not, score]; relevance, the score of the answer; chunks,
their scores. A score is a number, or a judge's whole reply.

Run in the environment of requirements/parity/trulens.txt.
"""

import ast
import json
import re
from typing import Any

from recording import instances_of, record

PROSE, INVENTED = "All of them matter.", "Nobody knows why."
SUBSTITUTED = (
    "nltk's trained English splitter of sentences, which is a download: its untrained one",
    "the provider: one that answers from this file",
)


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
    instances = instances_of("trulens")
    scores: dict[str, dict[str, float | None]] = {name: {} for name in measures}
    for name, (measure, columns) in measures.items():
        selectors = {one: Selector.from_column(column, collect_list=False) for one, column in columns.items()}
        evaluator = BatchEvaluator([Metric(name=name, implementation=measure, selectors=selectors)], max_workers=1)
        for now in instances:
            try:
                scores[name][now["id"]] = evaluator.evaluate([now])[name][0]
            except generated.ParseError:
                scores[name][now["id"]] = None
    record("trulens", ["trulens-feedback", "trulens-core", "nltk"], SUBSTITUTED, scores)


if __name__ == "__main__":
    main()
