"""Curves of a run's log: what is missing stays missing, and smoothing keeps to one number of candidates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.output.figure import png
from experiments.training_curves import (
    METRICS,
    mark_switches,
    moving_average,
    read_curves,
    read_points,
    smoothed,
    step_axes,
    switches,
)

reward = METRICS["reward"]


def test_what_a_step_lacks_is_nan_and_what_no_step_has_is_no_curve() -> None:
    steps = {0: {"val": 0.5}, 1: {reward: 1.0, "val": None}, 3: {reward: 0, METRICS["kl"]: "high", "val": 0.25}}
    curves = read_curves(steps)
    assert curves.keys() == {"reward"}
    assert np.array_equal(curves["reward"], [1.0, np.nan, 0.0], equal_nan=True)
    assert [points.tolist() for points in read_points(steps, "val")] == [[0.0, 3.0], [0.5, 0.25]]
    assert [points.tolist() for points in read_points(steps, "unheard-of")] == [[], []]
    assert read_curves({}) == {}


@given(st.lists(st.none() | st.floats(-5, 5), min_size=1, max_size=25), st.integers(1, 9))
def test_the_moving_average_is_the_mean_of_the_steps_around(values: list[float | None], window: int) -> None:
    curve = np.array([np.nan if value is None else value for value in values])
    before, after = window // 2, window - 1 - window // 2
    around = [curve[max(0, at - before) : at + after + 1] for at in range(len(curve))]
    wanted = [np.nan if np.isnan(part).all() else np.nanmean(part) for part in around]
    assert moving_average(curve, window) == pytest.approx(np.array(wanted), nan_ok=True, abs=1e-9)


def test_a_switch_is_the_first_step_with_another_number_of_candidates() -> None:
    assert switches(np.array([3.0, 3, 4, 4])) == [(3, 4.0)]
    assert switches(np.array([4.0, 4, 4])) == []
    assert switches(np.array([3.0, np.nan, 4, 4])) == [(3, 4.0)]
    assert switches(np.array([np.nan, 3.0, np.nan])) == []


def test_a_switch_inside_a_step_is_marked_after_it() -> None:
    """The paper's rows: 5,500 with three candidates are 171 steps of 32 and 28 rows of the next."""
    rows = np.repeat([3.0, 4.0], 5500)[: 343 * 32]
    candidates = rows.reshape(343, 32).mean(axis=1)
    assert [step for step, _ in switches(candidates)] == [172, 173]
    _, (ax,) = step_axes(1, 4, 3)
    mark_switches(ax, {"candidates": candidates})
    assert [text.get_text() for text in ax.texts] == ["K=4"]
    assert [line.get_xdata()[0] for line in ax.lines] == [172.5]


@given(st.lists(st.sampled_from([2.0, 3.0, 3.5, 4.0, np.nan]), min_size=1, max_size=20), st.integers(1, 9), st.data())
def test_smoothing_never_crosses_a_switch(candidates: list[float], window: int, data: st.DataObject) -> None:
    """Changing the values of one number of candidates changes no smoothed value of another."""
    of = np.array(candidates)
    values = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=len(of), max_size=len(of))))
    part = np.searchsorted([step - 1 for step, _ in switches(of)], np.arange(len(of)), side="right")
    changed = np.where(part == data.draw(st.sampled_from(part.tolist())), values + 10, values)
    before, after = (smoothed({"candidates": of, "v": v}, "v", window) for v in (values, changed))
    assert np.array_equal(before != after, values != changed)
    for at in set(part.tolist()):
        known = of[part == at]
        assert len(set(known[~np.isnan(known)].tolist())) <= 1


def test_without_a_switch_the_window_is_whole() -> None:
    run = {"candidates": np.repeat([3.0, 4.0], 4), "reward": np.repeat([1.0, 0.25], 4)}
    assert smoothed(run, "reward", 5).tolist() == run["reward"].tolist()
    wide = smoothed({"reward": run["reward"]}, "reward", 5)
    assert ((wide > 0.25) & (wide < 1)).any()


def test_the_same_figure_gives_the_same_bytes() -> None:
    def drawn() -> bytes:
        figure, (ax,) = step_axes(1, 4, 3)
        ax.plot([1, 2], [3, 4])
        return png(figure)

    assert drawn() == drawn() and drawn().startswith(b"\x89PNG")
