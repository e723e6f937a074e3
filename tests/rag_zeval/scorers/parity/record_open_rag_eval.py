"""What open-rag-eval's own evaluators say when their judge, an OpenAI endpoint on this machine, decides as
`open_rag_eval.json` says.

Run in the environment of requirements/parity/open-rag-eval.txt, with the repository on PYTHONPATH.
"""

import ast
import csv
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from graded_replies import Judge
from recording import instances_of, record

from rag_zeval.scripted_judge import ScriptedJudge

NO_FACT = "Not enough information, no answer found"  # what the original's prompt wants as the only nugget then
NUGGET_SCORES = {"nuggets_weighted": "Weighted", "nuggets_all_strict": "All Strict"} | {
    "nuggets_vital_strict": "Vital Strict",
    "nuggets_weighted_strict": "Weighted Strict",
}
SUBSTITUTED = (
    "torch, transformers and torchmetrics are left out: they are for HHEM and BERTScore, which are not compared; "
    "the hallucination score comes from the local endpoint and is not compared either"
)


def reply(instance: dict[str, Any], body: dict[str, Any]) -> Any:
    """The decision in the form of the structured output that is asked for."""
    if "messages" not in body:
        return {"status": 200, "body": {"score": 0.0}}  # of hallucination
    asked_for = body["response_format"]["json_schema"]["name"]
    return json.dumps(DECIDED[asked_for](Judge(instance, NO_FACT), body["messages"][-1]["content"]))


DECIDED: dict[str, Callable[[Judge, str], Any]] = {
    "UMBRELAScore": lambda judge, prompt: {"score": str(judge.grade(re.findall(r"Passage: (.*)\n", prompt)[-1]))},
    "Nuggets": lambda judge, prompt: {"nuggets": judge.created(listed(prompt, "Initial Nugget List"))},
    "NuggetImportance": lambda judge, prompt: {"importance": judge.importance(listed(prompt, "Nugget List"))},
    "NuggetAssignment": lambda judge, prompt: {"assignment": judge.assignment(listed(prompt, "Nugget List"))},
    "CitationSupport": lambda judge, prompt: {
        "support": judge.support(*re.findall(r"Statement: (.*)\n\s*Citation: (.*)\n", prompt)[0])
    },
    "QueryAnswered": lambda judge, prompt: {"answered": judge.answered()},
}


def listed(prompt: str, title: str) -> Any:
    return ast.literal_eval(re.findall(rf"\b{title}: (\[.*\])\n", prompt)[-1])


def write_results(path: Path, instances: list[dict[str, Any]]) -> None:
    """The file that a user of open-rag-eval gives it."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["query_id", "query", "query_run", "passage_id", "passage", "generated_answer"])
        for one in instances:
            for number, chunk in enumerate(one["chunks"], 1):
                answer = one["answer"] if number == 1 else ""
                rows.writerow([f"q{one['id']}", one["question"], 1, f"[{number}]", chunk, answer])


def scores_of(result: Any) -> dict[str, float | None]:
    retrieval, generation = result.scores.retrieval_score.scores, result.scores.generation_score.scores
    ranked = retrieval["precision_metrics"]
    nuggets = generation["autonugget_scores"].get("nuggetizer_scores", {})
    return {
        "umbrela": retrieval["mean_umbrela_score"],
        **{f"umbrela_precision_at_{k}": ranked["precision@"].get(str(k)) for k in (1, 3, 5)},
        **{f"umbrela_ap_at_{k}": ranked["AP@"].get(str(k)) for k in (1, 3, 5)},
        "umbrela_mrr": ranked["MRR"],
        "nuggets_all": generation["mean_nugget_assignment_score"],
        "nuggets_vital": generation["vital_nuggetizer_score"],
        **{ours: nuggets.get(theirs) for ours, theirs in NUGGET_SCORES.items()},
        "citation_precision": generation["citation_scores"]["weighted_precision"],
        "citation_recall": generation["citation_scores"]["weighted_recall"],
        "citation_f1": generation["citation_f1_score"],
        "answered": float(generation["no_answer_score"]["query_answered"] == "yes"),
    }


def main() -> None:
    for name in ("torch", "transformers", "torchmetrics", "torchmetrics.text", "torchmetrics.text.bert"):
        sys.modules[name] = MagicMock()
    from open_rag_eval.evaluators import ConsistencyEvaluator, TRECEvaluator
    from open_rag_eval.models import OpenAIModel
    from open_rag_eval.rag_results_loader import RAGResultsLoader

    instances = instances_of("open_rag_eval")
    server = ScriptedJudge()
    os.environ["OPENAI_API_KEY"] = "none"  # the client wants one
    model = OpenAIModel({"name": "judge", "api_key": "none", "base_url": server.url})
    factuality = {"backend_type": "vectara_api", "api_key": "none", "base_url": server.url}
    evaluator = TRECEvaluator(model, {"k_values": [1, 3, 5], "hallucination_metric": factuality})
    consistency = ConsistencyEvaluator({"hallucination_metric": factuality})
    scores: dict[str, dict[str, float | None]] = {"consistency": {}}
    with tempfile.TemporaryDirectory() as folder:
        write_results(Path(folder) / "results.csv", instances)
        results = {one.query_id: one for one in RAGResultsLoader(str(Path(folder) / "results.csv")).load()}
    for instance in instances:
        server.replies = lambda body, instance=instance: reply(instance, body)
        result = results[f"q{instance['id']}"]
        (scored,) = evaluator.evaluate(result).scored_rag_results
        for measure, value in scores_of(scored).items():
            scores.setdefault(measure, {})[instance["id"]] = value
        runs = instance["decisions"]["runs"]
        result.rag_results *= len(runs)
        steady = consistency.evaluate(result, {"runs": runs}).consistency_scores
        scores["consistency"][instance["id"]] = (
            steady["runs"].stats["consistency_adjusted_index"] if "runs" in steady else None
        )
    server.close()
    record("open_rag_eval", ["open-rag-eval", "openai"], [SUBSTITUTED], scores)


if __name__ == "__main__":
    main()
