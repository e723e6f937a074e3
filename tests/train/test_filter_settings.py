"""The keys `filter_*` of both trainers."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.stages.answer_quality import AnswerFilter
from rag_zeval.stages.config import load_config
from train import settings
from train.run_folder import RunFolder
from train.sft import __main__ as sft

STAGES = {"train": settings, "sft": sft}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "word",
    [
        "filter_identical=maybe",
        "filter_near_identical=0",
        "filter_near_identical=True",
        "filter_repetition=1.1",
        "filter_passage=most",
        "filter_unfinished=0.5",
    ],
)
def test_a_filter_that_does_not_fit_is_named(stage: str, word: str) -> None:
    with pytest.raises(InputError, match=f"^{word}: must be "):
        STAGES[stage].check_settings(load_config(stage, [word]))


@pytest.mark.parametrize("stage", STAGES)
def test_filters_are_read_and_all_but_the_first_are_off(stage: str) -> None:
    assert settings.read_filter(load_config(stage, [])) == AnswerFilter()
    words = ["identical=false", "near_identical=0.8", "repetition=1", "passage=0.5", "unfinished=true"]
    read = settings.read_filter(load_config(stage, [f"filter_{word}" for word in words]))
    assert read == AnswerFilter(False, 0.8, 1, 0.5, True)


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_begun_before_the_filters_were_there_goes_on(stage: str, tmp_path: Path) -> None:
    now = OmegaConf.to_container(load_config(stage, []), resolve=True)
    assert isinstance(now, dict)
    folder = RunFolder(tmp_path)
    folder.claim({"config": {k: v for k, v in now.items() if k == "filter_identical" or "filter" not in str(k)}})
    folder.next_attempt().write_text('{"step": 0, "data": {}}\n{"step": 1, "data": {}}\n')
    folder.claim({"config": now})
    with pytest.raises(InputError, match=r"config\.filter_passage=None, not 0\.9"):
        folder.claim({"config": {**now, "filter_passage": 0.9}})
