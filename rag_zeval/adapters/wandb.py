"""Logs results to Weights & Biases: `log_results(results, wandb.init())`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from rag_zeval.results import Judged
from rag_zeval.scoring.summary import logged_numbers


def log_results(judged: Sequence[Judged], run: Any) -> None:
    """Put mean, interval and coverage of each metric and system into the run's summary, and all answers into a table.

    judged: the results of `rag_zeval.evaluate` or `read_judged`. run: the result of `wandb.init`.
    """
    import wandb

    for name, value in logged_numbers(judged).items():
        run.summary[name] = value
    # as JSON, because W&B refuses a column of objects whose fields differ
    rows = [{**asdict(one), "claims": json.dumps(one.claims), "golden": json.dumps(one.golden)} for one in judged]
    columns: list[Any] = [field.name for field in fields(Judged)]
    table = wandb.Table(columns=columns, data=[list(row.values()) for row in rows])
    run.log({"answers": table})
