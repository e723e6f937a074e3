"""The figures for a paper: what their legends name, and what their axes count."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.report.charts import LONGEST_NAME, _histograms, _means, _slices, write_charts
from rag_zeval.report.scores import ScoreTable


def test_every_system_is_in_the_legend(make_row: Any, make_claim: Any) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    answers = [[make_claim("It is so.")], [make_claim("It was so.", False)]]
    rows = [make_row(tag, answers, slice_tag=tag, systems=["_old", "new"]) for tag in "ab"]
    figure = Figure(layout="constrained")
    _slices(figure, ScoreTable(rows))
    assert [text.get_text().strip() for text in figure.legends[0].get_texts()] == ["_old", "new"]


def test_every_system_looks_different_and_a_slice_says_how_many_scores_it_has(make_row: Any) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    counts: dict[str, dict[str, int]] = {"a": {}, "b": {"0": 1}}  # how many scores a system has, if not two
    rows = [
        make_row(f"{tag}{at}", [None], slice_tag=tag, systems=[str(system)], scores=[0.5])
        for tag, less in counts.items()
        for system in range(20)
        for at in range(less.get(str(system), 2))
    ]
    figure = Figure(layout="constrained")
    _slices(figure, ScoreTable(rows))
    handles = figure.legends[0].legend_handles
    assert len({(one.get_color(), one.get_marker()) for one in handles}) == 20
    labels = {label.get_text() for label in figure.axes[0].get_yticklabels()}
    assert labels == {"a (n = 2)", "b (n = 1 to 2)"}


@pytest.mark.parametrize("draw", [_means, _slices])
def test_long_names_and_many_metrics_leave_room_for_what_is_drawn(draw: Any, make_row: Any) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    name = "n" * LONGEST_NAME
    metrics = [f"metric {at}" for at in range(7)]
    rows = [
        make_row(tag, [None], metric=metric, slice_tag=tag + name, systems=[name], scores=[0.5])
        for tag in "ab"
        for metric in metrics
    ]
    figure = Figure(layout="constrained")
    draw(figure, ScoreTable(rows))
    figure.draw_without_rendering()
    assert [ax.get_title() for ax in figure.axes] == metrics
    assert min(ax.get_window_extent().width for ax in figure.axes) > figure.dpi  # an inch
    assert figure.get_size_inches()[0] < 20


@pytest.mark.parametrize("scores", [[None], [1.0], [1.0] * 9, []], ids=["none scored", "one", "some", "not asked"])
def test_answers_are_counted_in_whole_numbers_from_zero(make_row: Any, scores: list[float | None]) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    rows = [make_row("0", metric="other")]
    rows += [make_row(str(at), [None], systems=["two\nlines\x07"], scores=[x]) for at, x in enumerate(scores)]
    figure = Figure(layout="constrained")
    _histograms(figure, ScoreTable(rows))
    for ax in figure.axes:
        low, high = ax.get_ylim()
        ticks = [tick for tick in ax.get_yticks() if low <= tick <= high]
        assert low == 0 and len(ticks) > 1 and all(tick == int(tick) for tick in ticks)
        assert len(ax.get_title().splitlines()) == 3  # metric, system, and how many are scored


def test_histograms_of_many_systems_fit_on_a_page(make_row: Any) -> None:
    Figure = pytest.importorskip("matplotlib.figure").Figure
    names = [(f"metric {metric}", f"system {system}") for metric in range(2) for system in range(10)]
    figure = Figure(layout="constrained")
    rows = [make_row("1", metric=metric, systems=[system]) for metric, system in names]
    _histograms(figure, ScoreTable(rows))
    assert [tuple(ax.get_title().splitlines()[:2]) for ax in figure.axes] == names
    assert figure.get_size_inches()[0] < 20


def test_names_that_no_font_has_are_drawn_without_a_warning(make_row: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [make_row(tag, [None], slice_tag=tag, systems=["系统\U0001f600"], scores=[1.0]) for tag in ("中文", "ข")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [path.name for path in write_charts(tmp_path, rows)] == ["means.png", "histograms.png", "slices.png"]
