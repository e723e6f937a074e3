"""A judge is shipped with the scores that were measured of it, and not with those of another."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.nano_cards import SHOWN, main
from rag_zeval.errors import InputError
from rag_zeval.models.folder import model_sha256

BASE = "checkpoints/nano-base"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    model = tmp_path / "run" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    manifest = {
        "config": {
            "profile": "nano",
            "seed": 7,
            "stages": [{"k": 3, "rows": 160}, {"k": 4, "rows": 80}],
            "verl": {"data": {"train_batch_size": 8}, "actor_rollout_ref": {"rollout": {"n": 8}}},
        },
        "base": "b" * 64,
        "base_model": BASE,
        "model": model_sha256(model),
        "responses": "r" * 64,
        "steps": 30,
        "minutes": 12.34,
    }
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path / "run"


def summary(model: str) -> list[dict[str, Any]]:
    rows = []
    for name, value in ((BASE, 0.25), (model, 0.5), (f"{model} minus {BASE}", 0.25)):
        limits = {"ci_low": value - 0.125, "ci_high": value + 0.125, "n": 490}
        rows += [{"benchmark": "nano_eval", "model": name, "metric": m, "value": value, **limits} for m in SHOWN]
    return rows


def test_the_folder_is_the_model_and_a_card_with_both_scores(run: Path, tmp_path: Path) -> None:
    bench, out = tmp_path / "summary.json", tmp_path / "judge"
    bench.write_text(json.dumps(summary(str(run / "model"))))
    (out / "old").mkdir(parents=True)
    assert main(["judge", str(run), str(bench), str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    card = (out / "README.md").read_text()
    assert "| nano_eval | ranking_accuracy | 0.250 | 0.500 | +0.250 [+0.125, +0.375] | 490 |" in card
    assert "`make train PROFILE=nano ARGS=seed=7`" in card and model_sha256(out) in card
    assert "30 steps of 8 prompts with 8 rollouts (160 prompts with K=3, then 80 prompts with K=4), seed 7, 12" in card


def test_scores_of_another_model_or_changed_weights_are_refused(run: Path, tmp_path: Path) -> None:
    bench, out = tmp_path / "summary.json", tmp_path / "judge"
    bench.write_text(json.dumps(summary("another")))
    with pytest.raises(InputError, match="the bench has no format_rate of checkpoints/nano-base and "):
        main(["judge", str(run), str(bench), str(out)])
    (run / "model" / "model.safetensors").write_bytes(b"others")
    with pytest.raises(InputError, match="its weights are not those"):
        main(["judge", str(run), str(bench), str(out)])
    assert not out.exists()


def test_the_shipped_cards_are_of_the_shipped_weights() -> None:
    checkpoints = Path(__file__).parents[2] / "checkpoints"
    base, judge = (model_sha256(checkpoints / name) for name in ("nano-base", "nano-judge"))
    assert base in (checkpoints / "nano-base" / "README.md").read_text()
    card = (checkpoints / "nano-judge" / "README.md").read_text()
    assert base in card and judge in card
