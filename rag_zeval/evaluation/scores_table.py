"""Scores as a table for a spreadsheet: a row for each answer, in the order of the input."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rag_zeval.cases.case import CaseSet
from rag_zeval.csv_files import sheet_text
from rag_zeval.files import Row, write_text
from rag_zeval.results import over_trials


def write_scores(path: Path, cases: CaseSet, rows: Iterable[Row]) -> None:
    """Write a CSV file: id, system, slice, question and answer, then each metric's score, empty where there is none,
    and its status. Over trials, a score is the mean of those that are there.
    """
    judged = {(one.case, one.system, one.metric): one for one in over_trials(rows)}
    metrics = list(dict.fromkeys(metric for _, _, metric in judged))
    head = ["id", "system", "slice_tag", "question", "answer"]
    table = []
    for case in cases.cases:
        for system, answer in case.answers.items():
            cells = [case.id, system, case.slice_tag or "", case.question, answer]
            for metric in metrics:
                one = judged.get((case.id, system, metric))
                score = "" if one is None or one.score is None else repr(one.score)
                cells += [score, one.status if one else "not judged"]
            table.append(cells)
    columns = [column for metric in metrics for column in (metric, f"{metric} status")]
    write_text(path, sheet_text([*head, *columns], table))
