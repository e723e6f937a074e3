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
    best_step,
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


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
def test_steps_of_a_run_cut_anywhere_stand_once_and_are_the_last_written(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[tuple[int, int, bool]]
) -> None:
    """Each attempt starts at the latest after the last step logged, as a resumed run does; a kill may tear it."""
    folder, last, owner = tmp_path_factory.mktemp("metrics"), 0, {}
    for number, (back, length, torn) in enumerate(attempts, 1):
        start = max(1, last + 1 - back)
        steps = list(range(start, start + length))
        lines = [(step, data) for step in steps for data in ({"attempt": number}, {f"only {number}": 1})]
        write(folder, number, lines, torn=f'{{"step": {start + length}, "da' if torn else "")
        if steps:  # one killed at once takes nothing away
            owner = {step: n for step, n in owner.items() if step < start} | dict.fromkeys(steps, number)
            last = steps[-1]
    merged = merge(attempt_files(folder))
    assert merged == {step: {"attempt": n, f"only {n}": 1} for step, n in owner.items()}
    assert list(merged) == sorted(merged)
    assert logged_through(merged) == last == max(merged, default=0)
    assert read_attempt(folder / "attempt-13.jsonl") == []


def test_a_gap_ends_what_counts_as_logged() -> None:
    assert logged_through({0: {}, 1: {}, 2: {}, 4: {}}) == 2
    assert logged_through({0: {}}) == 0


@pytest.mark.parametrize(
    ("rewards", "best"),
    [
        ({0: 0.9, 1: 0.0}, 1),  # of the base, and a reward that is 0
        ({1: 0.1, 2: None, 3: 0.5, 4: 0.5}, 3),  # the earlier of equals
        ({1: 0.1, 2: 0.2, 4: 0.9}, 2),  # behind a gap nothing counts
        ({1: None}, 0),
    ],
)
def test_the_best_is_the_first_of_the_highest_among_whole_steps(rewards: dict[int, float | None], best: int) -> None:
    steps: Steps = {step: {} if reward is None else {VALIDATION: reward} for step, reward in rewards.items()}
    assert validation_rewards(steps) == {step: reward for step, reward in rewards.items() if reward is not None}
    assert best_step(steps) == best


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
