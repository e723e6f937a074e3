"""What ragchecker, with refchecker's extractor and checker, makes of the instances.

Runs in an environment of its own (requirements/parity/ragchecker.txt). The judge is a function, which the package takes
in place of a language model. Nothing is substituted: refchecker's spaCy model would only cut long references, which
ragchecker never asks for.
"""

from __future__ import annotations

import os
import re
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download of prices; before the import

from instances import as_given, labels, make_claims, make_instances, statement, whose
from ragchecker import RAGChecker, RAGResult, RAGResults
from ragchecker.container import RetrievedDoc
from ragchecker.metrics import METRIC_GROUP_MAP, all_metrics
from recording import record

CHECK = re.compile(r"### Reference:\n(.*)\n\n### Claims:\n(.*)\n\n\nYour answer", re.DOTALL)
EXTRACT = re.compile(r"### Candidate Answer:\n(.*)\n\n### KG:\n$", re.DOTALL)
TRIPLET = re.compile(r'\("(.*)", "(.*)", "(.*)"\)')


def reply(instance: dict[str, Any], prompt: str) -> str:
    """A prompt of refchecker, answered with what was decided about the instance: labels or triplets, one a line."""
    if check := CHECK.search(prompt):
        reference, claims = check.groups()
        known = labels(instance, reference)
        return "\n".join(as_given(instance, [known[statement(list(one))] for one in TRIPLET.findall(claims)]))
    extract = EXTRACT.search(prompt.rpartition("### Question:")[2])
    assert extract, prompt
    claims = instance["decisions"][f"{whose(instance, extract[1])}_claims"]
    return "\n".join(f'("{subject}", "{predicate}", "{thing}")' for subject, predicate, thing in claims) or "Abstain"


def scores(instance: dict[str, Any]) -> dict[str, float]:
    """The eleven values by their names."""
    chunks = [RetrievedDoc(text=chunk) for chunk in instance["chunks"]]
    result = RAGResult(instance["id"], instance["question"], instance["truth"], instance["answer"], chunks)
    checker = RAGChecker(custom_llm_api_func=lambda prompts: [reply(instance, prompt) for prompt in prompts])
    checker.evaluate(RAGResults([result]), all_metrics)
    return result.metrics


def main() -> None:
    instances = [*make_instances(), *make_claims()]
    values = {one["id"]: scores(one) for one in instances}
    by_measure = {
        f"ragchecker_{metric}": {id_: values[id_][metric] for id_ in values} for metric in METRIC_GROUP_MAP[all_metrics]
    }
    record("ragchecker", ["ragchecker", "refchecker"], [], instances, by_measure)


if __name__ == "__main__":
    main()
