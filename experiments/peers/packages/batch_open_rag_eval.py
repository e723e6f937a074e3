"""Scores rows with open-rag-eval's TREC evaluator: UMBRELA, nuggets, citations and whether the question was answered.

Its hallucination score needs model weights (HHEM) or its authors' service, so it is left out. Torch and other packages
that only this score imports are replaced by mocks.
"""

import csv
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import MagicMock

from rows import AT_ONCE, KEY, MODEL, Row, score_file

LEFT_OUT = ("torch", "transformers", "torchmetrics", "torchmetrics.text", "torchmetrics.text.bert")
COLUMNS = ("query_id", "query", "query_run", "passage_id", "passage", "generated_answer")


def score(rows: list[Row], url: str) -> Iterable[tuple[str, float | None]]:
    os.environ["OPENAI_API_KEY"] = KEY
    sys.modules.update({name: MagicMock() for name in LEFT_OUT})
    from open_rag_eval.evaluators import TRECEvaluator
    from open_rag_eval.models import OpenAIModel
    from open_rag_eval.rag_results_loader import RAGResultsLoader

    with Path("results.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        for row in rows:
            for number, chunk in enumerate(row["contexts"], 1):
                answer = row["answer"] if number == 1 else ""
                lines.writerow([row["id"], row["question"], 1, f"[{number}]", chunk, answer])
    judge = OpenAIModel({"name": MODEL, "api_key": KEY, "base_url": url})
    factuality = {"backend_type": "vectara_api", "api_key": KEY, "base_url": url}
    evaluator = TRECEvaluator(judge, {"k_values": [1, 3, 5], "hallucination_metric": factuality})
    evaluator.hallucination_metric = MagicMock(compute=lambda *_: {"hhem_score": 0.0})
    for result in evaluator.evaluate_batch(RAGResultsLoader("results.csv").load(), max_workers=AT_ONCE):
        (scored,) = result.scored_rag_results
        generation = scored.scores.generation_score if scored.scores else None
        yield result.query_id, generation.scores.get("mean_nugget_assignment_score") if generation else None


score_file(score)
