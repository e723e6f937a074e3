from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments.rehearsal.differences import ALWAYS, Difference, changed, differences, places, unlisted, words
from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.rollouts.agreement import precision
from train.settings import TrainSettings, read_settings
from train.verl_config import build

LANE = ("paper", "single")


def where(folder: Path) -> dict[str, Difference]:
    return places(folder, folder / "responses.jsonl", folder)


@pytest.mark.parametrize("profile", LANE)
@pytest.mark.parametrize("exact", [True, False])
def test_a_rehearsal_is_its_profile_but_for_what_is_listed(profile: str, exact: bool, tmp_path: Path) -> None:
    listed = differences(profile, exact=exact)
    assert unlisted(profile, where(tmp_path), listed) == []
    assert all(reason for _, reason in listed.values())
    config = load_config("train", words(profile, where(tmp_path), listed))
    verl = build(read_settings(TrainSettings, config).verl, {})
    assert precision(verl) == ("fp32" if exact else "bf16")
    assert verl.actor_rollout_ref.rollout.name == "vllm" and verl.actor_rollout_ref.model.use_remove_padding
    assert verl.data.max_response_length == 8192 and verl.actor_rollout_ref.rollout.n == 8


@pytest.mark.parametrize("key", ["verl.data.train_batch_size", "platform", "verl.actor_rollout_ref.actor.optim.lr"])
def test_what_is_not_listed_is_found(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = differences("paper", exact=False)
    taken: Mapping[str, Difference] = {key: listed[key]}
    rest = {name: value for name, value in listed.items() if name != key}
    monkeypatch.setattr(
        "experiments.rehearsal.differences.words", lambda p, *s: words(p, *s, *([taken] if s[1:] else []))
    )
    assert unlisted("paper", where(tmp_path), rest)[0] == key


def test_each_listed_setting_is_another_in_the_profile() -> None:
    for profile in LANE:
        listed = differences(profile, exact=True)
        own = changed(profile, listed)
        assert [key for key in ALWAYS if own[key] == listed[key].value] == []
    assert changed("single", ["verl.actor_rollout_ref.model.lora_rank"]) == {
        "verl.actor_rollout_ref.model.lora_rank": 32
    }


def test_what_runs_on_a_cpu_anyway_is_not_rehearsed() -> None:
    with pytest.raises(InputError, match="profile=nano trains on a CPU as it is; what is rehearsed is paper or single"):
        differences("nano", exact=True)
