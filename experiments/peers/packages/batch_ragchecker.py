"""Scores rows with RAGChecker's faithfulness, using `RAGChecker.evaluate`."""

import os
from collections.abc import Iterable

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download of prices; before the import
os.environ["OPENAI_API_KEY"] = "none"

from ragchecker import RAGChecker, RAGResult, RAGResults
from ragchecker.container import RetrievedDoc
from rows import AT_ONCE, MODEL, Row, score_file


def score(rows: list[Row], url: str) -> Iterable[tuple[str, float | None]]:
    checker = RAGChecker(
        extractor_name=f"openai/{MODEL}",
        checker_name=f"openai/{MODEL}",
        extractor_api_base=url,
        checker_api_base=url,
        batch_size_extractor=AT_ONCE,
        batch_size_checker=AT_ONCE,
    )
    results = RAGResults(
        [
            RAGResult(
                row["id"],
                row["question"],
                row["ground_truth"],
                row["answer"],
                [RetrievedDoc(text=one) for one in row["contexts"]],
            )
            for row in rows
        ]
    )
    checker.evaluate(results, "faithfulness")
    for one in results.results:
        yield one.query_id, one.metrics.get("faithfulness")


score_file(score)
