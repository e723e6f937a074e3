"""What ragas makes of the instances: its classes in metrics/_*.py, which our scorers follow, and its `collections`.

Runs in an environment of its own (requirements/parity/ragas.txt). The judge and the embeddings are clients of the
package's own interfaces.
"""

import asyncio
import json
import os
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # no telemetry; before the import

from langchain_core.outputs import Generation, LLMResult
from ragas.dataset_schema import SingleTurnSample
from ragas.embeddings.base import BaseRagasEmbedding, BaseRagasEmbeddings
from ragas.llms.base import BaseRagasLLM, InstructorBaseRagasLLM
from ragas.metrics import collections
from ragas.metrics._answer_correctness import AnswerCorrectness
from ragas.metrics._answer_relevance import AnswerRelevancy
from ragas.metrics._answer_similarity import AnswerSimilarity
from ragas.metrics._context_precision import ContextPrecision, ContextUtilization
from ragas.metrics._context_recall import ContextRecall
from ragas.metrics._faithfulness import Faithfulness
from ragas.run_config import RunConfig
from ragas_replies import Judge
from recording import instances_of, record


class JudgeOfText(BaseRagasLLM):
    """A judge as the classes in metrics/_*.py take it."""

    def __init__(self, judge: Judge):
        super().__init__(run_config=RunConfig())
        self.judge = judge

    def generate_text(self, prompt: Any, n: int = 1, **_: Any) -> LLMResult:
        texts = [json.dumps(self.judge.reply(prompt.to_string())) for _ in range(n)]
        return LLMResult(generations=[[Generation(text=text) for text in texts]])

    async def agenerate_text(self, prompt: Any, n: int = 1, **_: Any) -> LLMResult:
        return self.generate_text(prompt, n)

    def is_finished(self, response: LLMResult) -> bool:
        return True


class JudgeOfModels(InstructorBaseRagasLLM):
    """A judge as the classes in metrics/collections take it."""

    def __init__(self, judge: Judge):
        self.judge = judge

    def generate(self, prompt: str, response_model: Any) -> Any:
        return response_model.model_validate(self.judge.reply(prompt))

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        return self.generate(prompt, response_model)


class Vectors(BaseRagasEmbeddings):
    """The recorded vectors, for metrics/_*.py."""

    def __init__(self, vectors: dict[str, list[float]]):
        super().__init__()
        self.vectors = vectors
        self.set_run_config(RunConfig())

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)


class NewVectors(BaseRagasEmbedding):
    """The same for metrics/collections."""

    def __init__(self, vectors: dict[str, list[float]]):
        super().__init__()
        self.vectors = vectors

    def embed_text(self, text: str, **_: Any) -> list[float]:
        return self.vectors[text]

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        return self.embed_text(text)


QUESTION, ANSWER, TRUTH, CHUNKS = "user_input", "response", "reference", "retrieved_contexts"
# By our names: the class in metrics/_*.py, the one in metrics/collections, and what the latter is given.
METRICS: dict[str, tuple[type, type, tuple[str, ...]]] = {
    "faithfulness": (Faithfulness, collections.Faithfulness, (QUESTION, ANSWER, CHUNKS)),
    "answer_relevancy": (AnswerRelevancy, collections.AnswerRelevancy, (QUESTION, ANSWER)),
    "answer_correctness": (AnswerCorrectness, collections.AnswerCorrectness, (QUESTION, ANSWER, TRUTH)),
    "answer_similarity": (AnswerSimilarity, collections.SemanticSimilarity, (ANSWER, TRUTH)),
    "context_precision": (ContextPrecision, collections.ContextPrecision, (QUESTION, TRUTH, CHUNKS)),
    "context_utilization": (ContextUtilization, collections.ContextUtilization, (QUESTION, ANSWER, CHUNKS)),
    "context_recall": (ContextRecall, collections.ContextRecall, (QUESTION, TRUTH, CHUNKS)),
}
EMBED = ("answer_relevancy", "answer_correctness", "answer_similarity")


def sample_of(instance: dict[str, Any]) -> dict[str, Any]:
    texts = (instance[key] for key in ("question", "answer", "truth", "chunks"))
    return dict(zip((QUESTION, ANSWER, TRUTH, CHUNKS), texts, strict=True))


async def score(name: str, instance: dict[str, Any]) -> float:
    metric = METRICS[name][0]()
    if name != "answer_similarity":
        metric.llm = JudgeOfText(Judge(instance))
    if name in EMBED:
        metric.embeddings = Vectors(instance["decisions"]["vectors"])
    metric.init(RunConfig())
    return await metric.single_turn_ascore(SingleTurnSample(**sample_of(instance)))


async def newer_score(name: str, instance: dict[str, Any]) -> float:
    _, kind, given = METRICS[name]
    clients: dict[str, Any] = {}
    if name != "answer_similarity":
        clients["llm"] = JudgeOfModels(Judge(instance))
    if name in EMBED:
        clients["embeddings"] = NewVectors(instance["decisions"]["vectors"])
    sample = sample_of(instance)
    return (await kind(**clients).ascore(**{key: sample[key] for key in given})).value


def main() -> None:
    instances = instances_of("ragas")
    scores = {
        f"ragas_{name}{suffix}": {one["id"]: asyncio.run(value(name, one)) for one in instances}
        for suffix, value in (("", score), (" (collections)", newer_score))
        for name in METRICS
    }
    record("ragas", ["ragas"], [], scores)


if __name__ == "__main__":
    main()
