"""RAGChecker's own metrics, with refchecker's extractor and checker.

Models are called through litellm, as its users do.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download of prices; must be set before the import
os.environ["OPENAI_API_KEY"] = "none"  # our local server accepts any key

from protocol import serve
from ragchecker import RAGChecker, RAGResult, RAGResults
from ragchecker.container import RetrievedDoc


def load(measure: str, model: str) -> Callable[[dict[str, Any]], float | None]:
    metric = measure.removeprefix("ragchecker_")

    def score(instance: dict[str, Any]) -> float | None:
        checker = RAGChecker(
            extractor_name=f"openai/{model}",
            checker_name=f"openai/{model}",
            extractor_api_base=instance["url"],
            checker_api_base=instance["url"],
        )
        chunks = [RetrievedDoc(text=chunk) for chunk in instance["chunks"]]
        result = RAGResult(instance["id"], instance["question"], instance["truth"], instance["answer"], chunks)
        checker.evaluate(RAGResults([result]), metric)
        return result.metrics[metric]

    return score


if __name__ == "__main__":
    serve(load)
