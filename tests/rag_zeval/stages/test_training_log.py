from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.stages.training_log import (
    VALIDATION,
    Steps,
    attempt_files,
    logged_through,
    merge,
    read_attempt,
    read_run,
    validation_rewards,
    write_merged,
)


def write(folder: Path, attempt: int, rows: list[tuple[int, dict[str, float]]], torn: str = "") -> None:
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in rows]
    (folder / f"attempt-{attempt}.jsonl").write_text("".join(lines) + torn)


def test_a_later_attempt_wins_from_where_it_began(tmp_path: Path) -> None:
    write(tmp_path, 1, [(0, {"val": 0.0}), (1, {"r": 1}), (2, {"r": 2}), (3, {"r": 3})], torn='{"step": 4, "da')
    write(tmp_path, 2, [(2, {"r": 20}), (3, {"r": 30}), (4, {"r": 40})])
    write(tmp_path, 10, [(4, {"r": 400})])
    assert [path.stem for path in attempt_files(tmp_path)] == ["attempt-1", "attempt-2", "attempt-10"]
    assert merge(attempt_files(tmp_path)) == {
        0: {"val": 0.0}, 1: {"r": 1}, 2: {"r": 20}, 3: {"r": 30}, 4: {"r": 400}
    }  # fmt: skip


def test_two_lines_of_one_step_are_one(tmp_path: Path) -> None:
    write(tmp_path, 1, [(0, {"a": 1}), (0, {"b": 2})])
    assert merge(attempt_files(tmp_path)) == {0: {"a": 1, "b": 2}}


def test_an_attempt_killed_at_once_takes_nothing_away(tmp_path: Path) -> None:
    write(tmp_path, 1, [(1, {"r": 1})])
    write(tmp_path, 2, [], torn='{"step"')
    assert merge(attempt_files(tmp_path)) == {1: {"r": 1}}
    assert read_attempt(tmp_path / "attempt-3.jsonl") == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=5))
def test_steps_of_a_run_cut_anywhere_stand_once_and_are_the_last_written(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[tuple[int, int]]
) -> None:
    """Each attempt starts at or before the step after the last one logged, as a resumed run does."""
    folder, last, owner = tmp_path_factory.mktemp("metrics"), 0, {}
    for number, (back, length) in enumerate(attempts, 1):
        start = max(1, last + 1 - back)
        steps = list(range(start, start + length))
        write(folder, number, [(step, {"attempt": number}) for step in steps])
        owner = {step: n for step, n in owner.items() if step < start} | dict.fromkeys(steps, number)
        last = steps[-1]
    merged = merge(attempt_files(folder))
    assert {step: data["attempt"] for step, data in merged.items()} == owner
    assert logged_through(merged) == last == max(merged)


def test_a_gap_ends_what_counts_as_logged() -> None:
    assert logged_through({0: {}, 1: {}, 2: {}, 4: {}}) == 2
    assert logged_through({0: {}}) == 0


def test_zero_is_a_reward_and_none_is_not() -> None:
    steps: Steps = {0: {VALIDATION: 0.0}, 1: {"r": 1.0}, 2: {VALIDATION: 0.5}}
    assert validation_rewards(steps) == {0: 0.0, 2: 0.5}


def test_a_run_is_read_while_it_goes_on_and_from_what_was_kept_of_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no training run here"):
        read_run(tmp_path)
    write_merged(tmp_path / "metrics.jsonl", {1: {"r": 0.5}, 2: {"r": 0.25}})
    assert read_run(tmp_path) == {1: {"r": 0.5}, 2: {"r": 0.25}}
    (tmp_path / "metrics").mkdir()  # resumed: what was merged before is older than the attempts
    write(tmp_path / "metrics", 1, [(1, {"r": 0.5}), (2, {"r": 1})])
    write(tmp_path / "metrics", 2, [(2, {"r": 2})], torn='{"step":3,"data":{"r"')
    assert read_run(tmp_path) == {1: {"r": 0.5}, 2: {"r": 2}}


@pytest.mark.parametrize(
    ("line", "said"),
    [("\0\0", "not valid JSON"), ('{"step": 2}', "field 'data' is missing"), ('{"step": "2", "data": {}}', "'step'")],
)
def test_a_whole_line_that_is_no_step_is_named(tmp_path: Path, line: str, said: str) -> None:
    write(tmp_path, 1, [(1, {})], torn=line + "\n")
    with pytest.raises(InputError, match=f"attempt-1.jsonl:2: .*{said}"):
        read_attempt(tmp_path / "attempt-1.jsonl")
