"""export=best: the step of the highest validation reward comes out, whatever is removed or killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.stages.training_log import VALIDATION, best_step
from train.lora import META
from train.run_folder import RunFolder

SAVED = ("optim_world_size_1_rank_0.pt", "extra_state_world_size_1_rank_0.pt", "model_world_size_1_rank_0.pt")


def save(folder: RunFolder, step: int, adapter: bool = False) -> None:
    actor = folder.checkpoint(step) / "actor"
    (actor / "huggingface").mkdir(parents=True)
    (folder.checkpoint(step) / "data.pt").write_text("rows")
    (actor / "huggingface" / "model.safetensors").write_text(f"weights of {step}")
    for name in (*SAVED, *([META] if adapter else [])):
        (actor / name).write_text(f"state of {step}")


def log(attempt: Path, step: int, reward: float | None) -> None:
    with open(attempt, "a") as file:
        data = {} if reward is None else {VALIDATION: reward}
        file.write(json.dumps({"step": step, "data": data}) + "\n")


@given(st.dictionaries(st.integers(0, 12), st.one_of(st.none(), st.sampled_from([0.1, 0.5, 0.9]))))
def test_the_best_is_the_first_of_the_highest_among_whole_steps(rewards: dict[int, float | None]) -> None:
    steps = {step: {} if reward is None else {VALIDATION: reward} for step, reward in rewards.items()}
    best, expected = 0, None
    step = 1
    while step in rewards:  # only an unbroken log counts
        reward = rewards[step]
        if reward is not None and (expected is None or reward > expected):
            best, expected = step, reward
        step += 1
    assert best_step(steps) == best


@given(
    rewards=st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4]), min_size=1, max_size=8),
    keep=st.integers(1, 3),
    killed_after=st.sets(st.tuples(st.integers(1, 8), st.sampled_from(["saved", "logged", "linked"]))),
)
def test_the_best_outlives_verls_removals_and_any_kill(
    rewards: list[float], keep: int, killed_after: set[tuple[int, str]]
) -> None:
    """verl's order of things, played through: save and remove old ones, validate, log; then our own look at the log."""
    with tempfile.TemporaryDirectory() as place:
        folder, kills = RunFolder(Path(place) / "run"), set(killed_after)
        while (done := folder.last_checkpoint()) < len(rewards):
            folder.keep_best()
            attempt, known = folder.next_attempt(), []
            folder.prune(done)
            attempt.touch()
            for step in range(done + 1, len(rewards) + 1):
                save(folder, step)
                known.append(step)
                for old in known[:-keep]:
                    shutil.rmtree(folder.checkpoint(old), ignore_errors=True)
                if (step, "saved") in kills:
                    kills.remove((step, "saved"))
                    break
                log(attempt, step, rewards[step - 1])
                if (step, "logged") in kills:
                    kills.remove((step, "logged"))
                    break
                folder.keep_best()
                if (step, "linked") in kills:
                    kills.remove((step, "linked"))
                    (folder.checkpoints / "best.part").mkdir(exist_ok=True)  # a kill in the middle of the next one
                    break
        best = folder.best_step()
        assert best == rewards.index(max(rewards)) + 1
        weights = folder.weights_of(best) / "actor" / "huggingface" / "model.safetensors"
        assert weights.read_text() == f"weights of {best}"
        assert len(list(folder.checkpoints.glob("best_step_*"))) <= 1
        folder.forget_best()
        assert not list(folder.checkpoints.glob("best_step_*"))


@pytest.mark.parametrize("adapter", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_only_what_is_exported_is_kept(
    adapter: bool, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:

        def refuse(*_: object) -> None:
            raise OSError("no links here")

        monkeypatch.setattr(os, "link", refuse)
    folder = RunFolder(tmp_path / "run")
    save(folder, 1, adapter)
    log(folder.next_attempt(), 1, 0.5)
    folder.keep_best()
    kept = folder.weights_of(1)
    assert kept != folder.checkpoint(1)
    files = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    expected = {"actor/huggingface/model.safetensors"}
    assert files == expected | ({f"actor/{META}", f"actor/{SAVED[2]}"} if adapter else set())
    for path in kept.rglob("*.safetensors"):
        assert path.samefile(folder.checkpoint(1) / path.relative_to(kept)) is links


def test_a_checkpoint_that_cannot_be_kept_does_not_stop_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    save(folder, 1)
    log(folder.next_attempt(), 1, 0.5)

    def full(*_: object) -> None:
        raise OSError("no space left")

    for name in ("link", "mkdir"):
        monkeypatch.setattr(os, name, full)
    folder.keep_best()
    assert "step 1, the best so far, is not kept: no space left" in capsys.readouterr().err
    monkeypatch.undo()
    folder.keep_best()
    assert folder.weights_of(1) != folder.checkpoint(1)
