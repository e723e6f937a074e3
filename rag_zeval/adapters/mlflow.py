"""Logs results to MLflow: `with mlflow.start_run(): log_results(results)`."""

import re
from collections.abc import Sequence
from dataclasses import asdict

from rag_zeval.results import Judged
from rag_zeval.scoring.summary import columns_of


def log_results(judged: Sequence[Judged]) -> None:
    """Log mean, interval and coverage of each metric and system to the active run, and all answers as answers.json.

    judged: the results of `rag_zeval.evaluate` or `read_judged`. A missing mean or interval is not logged. In the names
    of metrics and systems, a dot replaces each character that MLflow does not allow.
    """
    import mlflow

    for column in columns_of(judged):
        values = {"mean": column.mean, "low": column.ci and column.ci[0], "high": column.ci and column.ci[1]}
        for name, value in {**values, "coverage": column.coverage}.items():
            if value is not None:
                mlflow.log_metric(re.sub(r"[^\w/. -]", ".", f"{column.metric}/{column.system}/{name}"), value)
    mlflow.log_dict({"answers": [asdict(one) for one in judged]}, "answers.json")
