"""Scores rows with ragas' faithfulness, using `evaluate` and its cache of replies on disk."""

import os
from collections.abc import Iterable

os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # no telemetry; before the import

from langchain_openai import ChatOpenAI
from ragas import EvaluationDataset, RunConfig, evaluate
from ragas.cache import DiskCacheBackend
from ragas.llms import LangchainLLMWrapper
from ragas.metrics import Faithfulness
from rows import AT_ONCE, KEY, MODEL, Row, score_file


def score(rows: list[Row], url: str) -> Iterable[tuple[str, float | None]]:
    data = EvaluationDataset.from_list(
        [
            {"user_input": row["question"], "response": row["answer"], "retrieved_contexts": row["contexts"]}
            for row in rows
        ]
    )
    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY)
    judge = LangchainLLMWrapper(model, cache=DiskCacheBackend("cache"))
    result = evaluate(data, metrics=[Faithfulness()], llm=judge, run_config=RunConfig(max_workers=AT_ONCE))
    return zip((row["id"] for row in rows), result["faithfulness"], strict=True)


score_file(score)
