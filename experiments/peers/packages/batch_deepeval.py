"""Scores rows with DeepEval's faithfulness, using `evaluate` and its cache of test cases."""

import os
from collections.abc import Iterable

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"  # before the import

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import FaithfulnessMetric
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase
from rows import AT_ONCE, KEY, MODEL, Row, score_file


def score(rows: list[Row], url: str) -> Iterable[tuple[str, float | None]]:
    cases = [
        LLMTestCase(
            name=row["id"], input=row["question"], actual_output=row["answer"], retrieval_context=row["contexts"]
        )
        for row in rows
    ]
    judge = LocalModel(model=MODEL, base_url=url, api_key=KEY)
    result = evaluate(
        cases,
        metrics=[FaithfulnessMetric(model=judge)],
        async_config=AsyncConfig(max_concurrent=AT_ONCE),
        cache_config=CacheConfig(use_cache=True),
        error_config=ErrorConfig(ignore_errors=True),
        display_config=DisplayConfig(print_results=False, show_indicator=False, inspect_after_run=False),
    )
    for one in result.test_results:
        yield one.name, one.metrics_data[0].score if one.metrics_data else None


score_file(score)
