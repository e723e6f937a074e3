"""Scores rows with TruLens' groundedness, using its BatchEvaluator.

nltk's trained sentence splitter must be downloaded, so the untrained one is used.
"""

from collections.abc import Iterable

import nltk
from nltk.tokenize import PunktSentenceTokenizer
from rows import AT_ONCE, KEY, MODEL, Row, score_file
from trulens.core import BatchEvaluator, Metric, Selector
from trulens.feedback import llm_provider
from trulens.providers.openai import OpenAI

nltk.download = lambda *args, **kwargs: True
llm_provider.sent_tokenize = PunktSentenceTokenizer().tokenize


def score(rows: list[Row], url: str) -> Iterable[tuple[str, float | None]]:
    provider = OpenAI(model_engine=MODEL, base_url=url, api_key=KEY, rpm=1_000_000)  # the default is one call a second
    groundedness = Metric(
        name="groundedness",
        implementation=provider.groundedness_measure_with_cot_reasons,
        selectors={"source": Selector.from_column("source"), "statement": Selector.from_column("answer")},
    )
    result = BatchEvaluator(metrics=[groundedness], max_workers=AT_ONCE).evaluate(
        [{**row, "source": "\n".join(row["contexts"])} for row in rows]
    )
    return zip(result["id"], result["groundedness"], strict=True)


score_file(score)
