"""What a run's folder says of it: which step counts, what it was begun with, and the model it leaves.

export=best: the step of the highest validation reward comes out, whatever is removed or killed on the way.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from rag_zeval.errors import InputError
from rag_zeval.stages.training_log import VALIDATION, best_step
from train.export.lora import META
from train.run_folder import RunFolder

SAVED = ("optim_world_size_1_rank_0.pt", "extra_state_world_size_1_rank_0.pt", "model_world_size_1_rank_0.pt")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def log(attempt: Path, *steps: int, reward: float | None = None) -> None:
    data = {} if reward is None else {VALIDATION: reward}
    with open(attempt, "a") as file:
        file.writelines(json.dumps({"step": step, "data": data}) + "\n" for step in steps)


def save(folder: RunFolder, step: int, adapter: bool = False) -> Path:
    """A checkpoint as verl writes it; the folder of what is exported from it."""
    actor = folder.checkpoint(step) / "actor"
    (actor / "huggingface").mkdir(parents=True)
    (folder.checkpoint(step) / "data.pt").write_text("rows")
    (actor / "huggingface" / "model.safetensors").write_text(f"weights of {step}")
    for name in (*SAVED, *([META] if adapter else [])):
        (actor / name).write_text(f"state of {step}")
    return actor / "huggingface"


def test_a_checkpoint_counts_once_its_step_is_logged(folder: RunFolder) -> None:
    assert folder.last_checkpoint() == 0
    save(folder, 2)
    save(folder, 4)
    log(folder.next_attempt(), 0, 1, 2, 3)  # killed after the checkpoint of step 4, before its metrics
    assert folder.last_checkpoint() == 2
    log(folder.next_attempt(), 3, 4)
    assert folder.last_checkpoint() == 4 and folder.last_checkpoint(logged_first=True) == 2
    copies = folder.checkpoints / "global_step_4_old", folder.attempts / "attempt-1 (copy).jsonl"
    copies[0].mkdir()
    log(copies[1], 5)
    folder.prune(4)
    assert not folder.checkpoint(2).exists() and folder.checkpoint(4).exists()
    assert folder.last_checkpoint() == 4 and folder.count_attempts() == 2 and all(copy.exists() for copy in copies)


def test_a_run_goes_on_only_with_what_it_began_with(folder: RunFolder) -> None:
    identity: dict[str, Any] = {"config": {"seed": 0, "verl": {"lr": 1e-4}}, "base": "abc"}
    folder.claim(identity)
    log(folder.next_attempt(), 0, 1)
    folder.claim(identity)
    with pytest.raises(InputError, match=r"holds a run with config.verl.lr=0.0001, not 0.001: choose another out_dir"):
        folder.claim({**identity, "config": {"seed": 0, "verl": {"lr": 1e-3}}})
    with pytest.raises(InputError, match=r"with config.verl.lr=0.0001, not None"):
        folder.claim({**identity, "config": {"seed": 0}})


def test_damaged_counts_are_named_with_their_field(folder: RunFolder) -> None:
    folder.counts.parent.mkdir(parents=True)
    for content, said in (("{}", "is missing"), ('{"train_rows": "3"}', "must be"), ("[]", "list")):
        folder.counts.write_text(content)
        with pytest.raises(InputError, match=rf"^{folder.counts}: .*{said}"):
            folder.read_counts({"train_rows": int})
    folder.counts.write_text('{"train_rows": 3}')
    assert folder.read_counts({"train_rows": int}) == {"train_rows": 3}


def test_a_run_that_never_came_to_a_step_starts_over(folder: RunFolder) -> None:
    folder.claim({"seed": 0})
    log(folder.next_attempt(), 0)
    save(folder, 1)
    folder.train_rows.parent.mkdir()
    (folder.rollouts / "val").mkdir(parents=True)
    folder.claim({"seed": 1})
    assert folder.count_attempts() == 0
    assert not any(path.exists() for path in (folder.train_rows.parent, folder.checkpoints, folder.rollouts))
    folder.claim({"seed": 1})
    assert json.loads(folder.identity.read_text()) == {"seed": 1}


@pytest.mark.parametrize("left", ["manifest.json", "metrics", "data", "checkpoints", "rollouts", "model", "adapter"])
def test_a_folder_without_an_identity_is_not_of_a_training(folder: RunFolder, left: str) -> None:
    """Such as another stage's, or the repository (`out_dir=.`), whose data and checkpoints must stay."""
    (folder.path / left).mkdir(parents=True)
    for seed in (0, 1):
        with pytest.raises(InputError, match=rf"holds {left}, but no run\.json, .*: choose another out_dir"):
            folder.claim({"seed": seed})
    assert (folder.path / left).exists() and not folder.identity.exists()


@pytest.mark.parametrize("left", ["metrics.jsonl", "model"])
def test_a_run_without_verl_is_not_overwritten(folder: RunFolder, left: str) -> None:
    """`train.one_gpu` logs to metrics.jsonl alone, and leaves model/ without a manifest."""
    folder.claim({"config": {"steps": 64}})
    log(folder.metrics, 0)
    folder.claim({"config": {"steps": 65}})  # nothing but the base was validated
    if left == "model":
        folder.model.mkdir()
    else:
        log(folder.metrics, 1)
    with pytest.raises(InputError, match=r"holds a run with config\.seed=None, not 0"):
        folder.claim({"config": {"seed": 0}})


def test_export_takes_weights_from_the_checkpoint_and_the_rest_from_the_base(folder: RunFolder, tmp_path: Path) -> None:
    trained, base = save(folder, 3), tmp_path / "base"
    base.mkdir()
    save_file({"w": np.ones(2, dtype=np.float32)}, trained / "model.safetensors")
    weights = (trained / "model.safetensors").read_bytes()
    for place, name, text in [
        (trained, "config.json", '{"dtype": "bfloat16", "vocab_size": 3}'), (trained, "tokenizer.json", "resaved"),
        (base, "model.safetensors", "old"), (base, "tokenizer.json", "original"),
        (base, "rag_zeval.json", '{"world": "w", "variant": "compact", "answer_sentences": 3}'),
    ]:  # fmt: skip
        (place / name).write_text(text)
    for _ in range(2):  # again after a kill
        folder.export(3, str(base), "paper")
    assert (folder.model / "model.safetensors").read_bytes() == weights
    files = {path.name: path.read_text() for path in folder.model.iterdir() if path.suffix != ".safetensors"}
    assert json.loads(files.pop("config.json")) == {"dtype": "float32", "vocab_size": 3}  # verl says bfloat16 of all
    assert json.loads(files.pop("rag_zeval.json")) == {
        "world": "w",
        "variant": "paper",  # the prompt it now knows
        "answer_sentences": 3,
    }
    assert files == {"tokenizer.json": "original"}


@pytest.mark.parametrize(
    ("stored", "said"),
    [([torch.bfloat16], "bfloat16"), ([torch.float16, torch.float16], "float16"), ([torch.float32], "float32"),
     ([torch.float32, torch.bfloat16], "as it was"), ([torch.float64], "as it was")],
)  # fmt: skip
def test_the_config_says_what_the_weights_are(folder: RunFolder, stored: list[Any], said: str, tmp_path: Path) -> None:
    trained = save(folder, 1)
    (trained / "config.json").write_text('{"dtype": "as it was"}')
    for shard, dtype in enumerate(stored):
        save_torch({f"w{shard}": torch.ones(2, dtype=dtype)}, trained / f"model{shard or ''}.safetensors")
    folder.export(1, str(tmp_path), "paper")
    assert json.loads((folder.model / "config.json").read_text())["dtype"] == said


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
                log(attempt, step, reward=rewards[step - 1])
                if (step, "logged") in kills:
                    kills.remove((step, "logged"))
                    break
                folder.keep_best()
                if (step, "linked") in kills:
                    kills.remove((step, "linked"))
                    (folder.checkpoints / "best.part").mkdir(exist_ok=True)  # a kill in the middle of the next one
                    break
        best = best_step(folder.steps())
        assert best == rewards.index(max(rewards)) + 1
        weights = folder.weights_of(best) / "actor" / "huggingface" / "model.safetensors"
        assert weights.read_text() == f"weights of {best}"
        assert len(list(folder.checkpoints.glob("best_step_*"))) <= 1
        folder.forget_best()
        assert not list(folder.checkpoints.glob("best_step_*"))


def refuse(*_: object) -> None:
    raise OSError("no space left")


@pytest.mark.parametrize("adapter", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_only_what_is_exported_is_kept(
    folder: RunFolder, adapter: bool, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    save(folder, 1, adapter)
    log(folder.next_attempt(), 1, reward=0.5)
    folder.keep_best()
    kept = folder.weights_of(1)
    assert kept != folder.checkpoint(1)
    files = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    expected = {"actor/huggingface/model.safetensors"}
    assert files == expected | ({f"actor/{META}", f"actor/{SAVED[2]}"} if adapter else set())
    for path in kept.rglob("*.safetensors"):
        assert path.samefile(folder.checkpoint(1) / path.relative_to(kept)) is links


def test_a_checkpoint_that_cannot_be_kept_does_not_stop_the_run(
    folder: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 1)
    log(folder.next_attempt(), 1, reward=0.5)
    for name in ("link", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    folder.keep_best()
    assert "step 1, the best so far, is not kept: no space left" in capsys.readouterr().err
    monkeypatch.undo()
    folder.keep_best()
    assert folder.weights_of(1) != folder.checkpoint(1)
