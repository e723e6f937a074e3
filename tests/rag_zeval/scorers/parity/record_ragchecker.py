"""What ragchecker, with refchecker's extractor and checker, makes of the instances.

Runs in an environment of its own (requirements/parity/ragchecker.txt). The judge is a function, which the package takes
in place of a language model. Nothing is substituted: refchecker's spaCy model would only cut long references, which
ragchecker never asks for.
"""

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download of prices; before the import

from ragchecker import RAGChecker, RAGResult, RAGResults
from ragchecker.container import RetrievedDoc
from ragchecker.metrics import METRIC_GROUP_MAP, all_metrics
from ragchecker_replies import reply
from recording import instances_of, record


def scores(instance: dict[str, Any]) -> dict[str, float]:
    chunks = [RetrievedDoc(text=chunk) for chunk in instance["chunks"]]
    result = RAGResult(instance["id"], instance["question"], instance["truth"], instance["answer"], chunks)
    checker = RAGChecker(custom_llm_api_func=lambda prompts: [reply(instance, prompt) for prompt in prompts])
    checker.evaluate(RAGResults([result]), all_metrics)
    return result.metrics


def main() -> None:
    instances = instances_of("ragchecker")
    values = {one["id"]: scores(one) for one in instances}
    by_measure = {
        f"ragchecker_{metric}": {id_: values[id_][metric] for id_ in values} for metric in METRIC_GROUP_MAP[all_metrics]
    }
    record("ragchecker", ["ragchecker", "refchecker"], [], by_measure)


if __name__ == "__main__":
    main()
