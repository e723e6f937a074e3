"""The figures for a paper: what their legends name."""

from typing import Any

import pytest

from rag_zeval.report.charts import _slices
from rag_zeval.report.scores import ScoreTable


def test_every_system_is_in_the_legend(make_row: Any, make_claim: Any) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    answers = [[make_claim("It is so.")], [make_claim("It was so.", False)]]
    rows = [make_row(tag, answers, slice_tag=tag, systems=["_old", "new"]) for tag in "ab"]
    figure = Figure(layout="constrained")
    _slices(figure, ScoreTable(rows))
    assert [text.get_text().strip() for text in figure.legends[0].get_texts()] == ["_old", "new"]
