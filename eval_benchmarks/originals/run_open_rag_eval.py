"""open-rag-eval's own UMBRELA, AutoNuggetizer and citation scores.

Its hallucination score needs weights (HHEM) or its authors' service, so it is left out. So are torch and the other
packages that only this score imports.
"""

import csv
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from protocol import serve

LEFT_OUT = ("torch", "transformers", "torchmetrics", "torchmetrics.text", "torchmetrics.text.bert")
COLUMNS = ("query_id", "query", "query_run", "passage_id", "passage", "generated_answer")


def load(measure: str, model: str) -> Callable[[dict[str, Any]], float | None]:
    os.environ["OPENAI_API_KEY"] = "none"  # our local server accepts any key
    sys.modules.update({name: MagicMock() for name in LEFT_OUT})
    from open_rag_eval.evaluators import TRECEvaluator
    from open_rag_eval.models import OpenAIModel
    from open_rag_eval.rag_results_loader import RAGResultsLoader

    def score(instance: dict[str, Any]) -> float | None:
        judge = OpenAIModel({"name": model, "api_key": "none", "base_url": instance["url"]})
        factuality = {"backend_type": "vectara_api", "api_key": "none", "base_url": instance["url"]}
        evaluator = TRECEvaluator(judge, {"k_values": [1, 3, 5], "hallucination_metric": factuality})
        evaluator.hallucination_metric = MagicMock(compute=lambda *_: {"hhem_score": 0.0})
        with tempfile.TemporaryDirectory() as folder:
            [result] = RAGResultsLoader(str(write_results(Path(folder), instance))).load()
        (scored,) = evaluator.evaluate(result).scored_rag_results
        retrieval, generation = scored.scores.retrieval_score.scores, scored.scores.generation_score.scores
        return {
            "umbrela": lambda: retrieval["mean_umbrela_score"],
            "nuggets_all": lambda: generation["mean_nugget_assignment_score"],
            "citation_f1": lambda: generation["citation_f1_score"],
        }[measure]()

    return score


def write_results(folder: Path, instance: dict[str, Any]) -> Path:
    """Write the file that a user of the package gives it, and return its path."""
    path = folder / "results.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number, chunk in enumerate(instance["chunks"], 1):
            answer = instance["answer"] if number == 1 else ""
            rows.writerow(["1", instance["question"], 1, f"[{number}]", chunk, answer])
    return path


if __name__ == "__main__":
    serve(load)
