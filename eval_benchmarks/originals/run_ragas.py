"""ragas' own faithfulness and answer similarity, run as its users run them: with langchain's OpenAI clients."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # no telemetry; must be set before the import

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from protocol import serve
from ragas.dataset_schema import SingleTurnSample
from ragas.embeddings import LangchainEmbeddingsWrapper
from ragas.llms import LangchainLLMWrapper
from ragas.metrics._answer_similarity import AnswerSimilarity
from ragas.metrics._faithfulness import Faithfulness
from ragas.run_config import RunConfig

ANY_KEY = "none"


def load(measure: str, model: str) -> Callable[[dict[str, Any]], float | None]:
    metric: Any = {"ragas_faithfulness": Faithfulness, "ragas_answer_similarity": AnswerSimilarity}[measure]()

    def score(instance: dict[str, Any]) -> float | None:
        if instance["embeddings"]:
            client = OpenAIEmbeddings(
                model=instance["embeddings"],
                base_url=instance["url"],
                api_key=ANY_KEY,
                check_embedding_ctx_length=False,  # otherwise it sends token numbers instead of texts
            )
            metric.embeddings = LangchainEmbeddingsWrapper(client)
        else:
            metric.llm = LangchainLLMWrapper(ChatOpenAI(model=model, base_url=instance["url"], api_key=ANY_KEY))
        metric.init(RunConfig(max_retries=1))  # the proxy has done all useful retries
        sample = SingleTurnSample(
            user_input=instance["question"],
            response=instance["answer"],
            reference=instance["truth"],
            retrieved_contexts=instance["chunks"],
        )
        return asyncio.run(metric.single_turn_ascore(sample))

    return score


if __name__ == "__main__":
    serve(load)
