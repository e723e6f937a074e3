"""docs/departures.md is the whole list: its values are those of the composed configuration, and none is missing."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rag_zeval.files import flat
from rag_zeval.stages.config import load_config
from train.verl_config import PPO, SFT, schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "departures.md"
PAPER = "The paper's own scale (`PROFILE=paper`)"
PROFILES = {  # by heading: the profiles for which the rows below it must hold
    "In every profile": ("paper", "single", "small", "nano"),
    PAPER: ("paper", "single"),
    "One GPU (`PROFILE=single`)": ("single",),
    "The nano profile": ("nano",),
    "The small profile": ("small",),
}
TRAINERS = {"train": PPO, "sft": SFT}
# What a profile may set without a row: how fast, where and in what pieces a run is computed, and what it reports.
PLUMBING = re.compile(
    r"profile|platform|workers|batch_tokens|gpu_memory_gib|embeddings|validation"
    r"|verl\.(trainer\.(?!total_epochs)|reward\.|ray_kwargs\.|transfer_queue\.)\S+"
    r"|verl\.data\.(use_dynamic_bsz|micro_batch_size_per_gpu)"
    r"|verl\.(actor_rollout_ref\.)?model\.(?!lora_rank|lora_alpha)\S+"
    r"|verl\.(engine|actor_rollout_ref\.actor\.fsdp_config)\.(?!mixed_precision\.param_dtype)\S+"
    r"|verl\.(actor_rollout_ref\.actor\.)?checkpoint\.\S+"
    r"|verl\.actor_rollout_ref\.actor\.(use_dynamic_bsz|ppo_mini_batch_size|ppo_micro_batch_size_per_gpu"
    r"|use_torch_compile)"
    r"|verl\.actor_rollout_ref\.(ref\.\S+|rollout\.(?!n$|temperature|top_|val_kwargs)\S+)"
)


def rows() -> list[tuple[str, str, str]]:
    """Heading, what is here, and where, of each line of the page's tables."""
    found, heading = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "here":
            assert len(cells) == 4, line
            found.append((heading, cells[0], cells[3]))
    return found


KEYED = [
    (heading, profile, here, *where.strip("`").split(": "))
    for heading, here, where in rows()
    if where.startswith("`")
    for profile in PROFILES[heading]
]


@cache
def loaded(profile: str, stage: str) -> Any:
    return load_config(stage, [f"profile={profile}"])


def value_of(profile: str, stage: str, key: str) -> Any:
    """What a run of the stage has for the key; where our files set none of verl's keys, verl's default."""
    value = OmegaConf.select(loaded(profile, stage), key)
    if value is None and key.startswith("verl."):
        value = OmegaConf.select(schema(TRAINERS[stage]), key.removeprefix("verl."), throw_on_missing=True)
        assert value is not None, f"{key}: verl has no such key"
    return OmegaConf.to_object(value) if OmegaConf.is_config(value) else value


def says(text: str, value: Any) -> bool:
    """Whether a cell has the value: numbers as numbers, of a path its last part, null as "all"."""
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "all"}[value] in text
    if isinstance(value, list):
        return all(says(text, part) for one in value for part in (one.values() if isinstance(one, dict) else [one]))
    if isinstance(value, str):
        return value.rpartition("/")[2] in text
    numbers = re.findall(r"-?\d*\.?\d+(?:e-?\d+)?", text.replace(",", ""))
    return float(value) in map(float, numbers)


@pytest.mark.parametrize(("heading", "profile", "here", "stage", "key"), KEYED, ids=lambda part: part[:40])
def test_the_page_has_the_value_of_the_configuration(
    heading: str, profile: str, here: str, stage: str, key: str
) -> None:
    if heading == PAPER and profile == "single" and (stage, key) in own_keys("single"):
        return  # the profile has a row of its own for it
    value = value_of(profile, stage, key)
    assert says(here, value), f"{here!r}, but {stage}: {key} is {value!r}"


def own_keys(profile: str) -> set[tuple[str, str]]:
    [heading] = [heading for heading, profiles in PROFILES.items() if profiles == (profile,)]
    return {
        (stage, key)
        for title, _, where in rows()
        if title == heading and where.startswith("`")
        for stage, key in [where.strip("`").split(": ")]
    }


@pytest.mark.parametrize("profile", ["single", "nano", "small"])
@pytest.mark.parametrize("stage", ["synthesize", "train", "sft"])
def test_every_setting_that_decides_what_is_learned_is_listed(profile: str, stage: str) -> None:
    here, paper = (flat(OmegaConf.to_container(loaded(name, stage))) for name in (profile, "paper"))
    changed = {key for key in here.keys() | paper.keys() if here.get(key) != paper.get(key)}
    assert {key for key in changed if not PLUMBING.fullmatch(key)} <= {
        key for of, key in own_keys(profile) if of == stage
    }


@pytest.mark.parametrize(("heading", "here", "where"), [row for row in rows() if not row[2].startswith("`")])
def test_the_file_of_a_row_has_what_is_named(heading: str, here: str, where: str) -> None:
    named, path = re.fullmatch(r"\[`(.+)`\]\(\.\./(.+)\)", where).groups()  # type: ignore[union-attr]
    text = (ROOT / path).read_text()
    assert named in text or path.startswith(named) or path.endswith(named)
