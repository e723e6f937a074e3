"""Logs results to MLflow: `with mlflow.start_run(): log_results(results)`."""

import re
from collections.abc import Sequence
from dataclasses import asdict

from rag_zeval.results import Judged
from rag_zeval.scoring.summary import logged_numbers


def log_results(judged: Sequence[Judged]) -> None:
    """Log mean, interval and coverage of each metric and system to the active run, and all answers as answers.json.

    judged: the results of `rag_zeval.evaluate` or `read_judged`. A missing mean or interval is not logged. In the names
    of metrics and systems, a dot replaces each character that MLflow does not allow, and "_" is put before "..".
    """
    import mlflow

    for name, value in logged_numbers(judged).items():
        if value is not None:
            plain = re.sub(r"[^\w/. -]|/(?=/)", ".", name)  # nor two slashes in a row, nor "." or ".." between slashes
            mlflow.log_metric(re.sub(r"/(?=\.\.?/)", "/_", plain), value)
    mlflow.log_dict({"answers": [asdict(one) for one in judged]}, "answers.json")
