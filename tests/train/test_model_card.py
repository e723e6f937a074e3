"""The card of an exported model: what the run was, and nothing in it that reads as Markdown of a stranger's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import VALIDATION
from train.model_card import card_settings, departures, escape, indented, write_model_card
from train.settings import TrainSettings, read_settings

STEPS = {0: {VALIDATION: 0.25}, 1: {"critic/score/mean": 1.0}, 2: {VALIDATION: 0.75}, 3: {VALIDATION: 0.5}}
SHAS = {"base": "b" * 64, "responses": "c" * 64, "model": "d" * 64, "train_rows": "e" * 64, "val_rows": "f" * 64}
MANIFEST = {
    **SHAS,
    "prompt_hash": "0123456789abcdef",
    "counts": {"train_rows": 24, "val_rows": 4},
    "steps": 3,
    "exported_step": 2,
    "attempts": 2,
    "minutes": 12.6,
    "base_model": "ignored",
}
HOSTILE = "<script>x</script> | [a](http://b) `c` **d**\n\n# e\n- f ![g](h) &amp; $i$ ~~j~~ \\"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"dtype": "float32"}')
    return folder


def card(model: Path, *words: str) -> str:
    write_model_card(model, read_settings(TrainSettings, load_config("train", words)), MANIFEST, STEPS)
    return (model / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("profile", ["nano", "single", "paper"])
def test_the_card_says_what_the_run_was(profile: str, model: Path) -> None:
    text = card(model, f"profile={profile}", "seed=7", "export=best", "base_model=Qwen/Qwen2.5-7B-Instruct")
    assert all(sha in text for name, sha in SHAS.items() if name != "base")
    assert "seed 7" in text and "3 steps of" in text and "13 minutes" in text and "2 attempts" in text
    assert "step 2, of the highest validation reward" in text and "| float32, sha256" in text
    table = re.findall(r"^\| (\d+) \| ([\d.]+) \|$", text, re.MULTILINE)
    assert table == [("0", "0.2500"), ("2", "0.7500"), ("3", "0.5000")]
    assert text.startswith("---\n") and '\nbase_model: "Qwen/Qwen2.5-7B-Instruct"\n---\n' in text
    assert "verl 0.9.1" in text and "that of Natural Questions is CC BY-SA 3.0" in text


@pytest.mark.parametrize("variant", ["paper", "compact-no-evidence"])
def test_evidence_is_rewarded_only_where_the_prompt_asks_for_it(variant: str, model: Path) -> None:
    text = card(model, f"variant={variant}")
    assert ("verbatim evidence" in text) == ("Evidence tokens" in text) == (variant == "paper")


def test_neither_paths_nor_addresses_of_machines_are_shown(model: Path, tmp_path: Path) -> None:
    base = tmp_path / "models" / "my-base"
    base.mkdir(parents=True)
    words = [f"base_model={base}", f"out_dir={tmp_path}/out", f"responses={tmp_path}/answers.jsonl"]
    text = card(model, *words, "verl.ray_kwargs.ray_init.address=10.0.0.7:6379")
    assert str(tmp_path) not in text and "10.0.0.7" not in text
    assert "| base model | my-base, sha256 of the folder " + "b" * 64 in text
    assert "base_model:" not in text.split("---\n")[1]


def test_a_world_of_its_own_is_said(model: Path) -> None:
    assert "knows its generated world" not in card(model)
    (model / "rag_zeval.json").write_text('{"world": "nano"}')
    assert "**It knows its generated world (nano) only**" in card(model)


def test_the_settings_of_the_paper_depart_in_nothing() -> None:
    assert departures(card_settings(load_config("train", ["profile=paper", "seed=3"]))) == []
    changed = load_config("train", ["profile=paper", "verl.data.train_batch_size=64", "verl.algorithm.gamma=0.5"])
    found = departures(card_settings(changed))
    assert sorted(found) == [("verl.algorithm.gamma", 0.5, "not set"), ("verl.data.train_batch_size", 64, 32)]


def shown(markdown: str) -> tuple[list[str], str]:
    """Types of all tokens of the parsed Markdown, and the text that a reader sees."""
    tokens: list[Any] = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    inner = [child for token in tokens for child in token.children or []]
    return [token.type for token in (*tokens, *inner)], "".join(token.content for token in inner)


@given(st.text() | st.text(alphabet="\\`*_{}[]()<>#+-.!|~&$:\n\t aA1", max_size=40))
def test_any_text_in_a_cell_is_only_text(text: str) -> None:
    types, seen = shown(f"| a | b |\n|---|---|\n| x {escape(text)} | y |\n")
    assert set(types) <= {
        "table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close",
        "th_open", "th_close", "td_open", "td_close", "inline", "text", "text_special",
    }  # fmt: skip
    assert types.count("td_open") == 2
    assert seen == f"abx {' '.join(text.split())}".strip().replace("\0", "\ufffd") + "y"


@given(st.text() | st.text(alphabet="`~#- \n\r\tab", max_size=40))
def test_any_text_in_the_block_is_code(text: str) -> None:
    if not text.strip():
        return
    types, _ = shown(f"before\n\n{indented('key: ' + text)}\n\nafter\n")
    assert types == ["paragraph_open", "inline", "paragraph_close", "code_block", "paragraph_open", "inline",
                     "paragraph_close", "text", "text"]  # fmt: skip


def test_hostile_settings_stay_text(model: Path) -> None:
    word = f"verl.trainer.project_name={json.dumps(HOSTILE)}"
    types, _ = shown(card(model, word, f"base_model={json.dumps('org/' + HOSTILE)}").split("---\n", 2)[2])
    clean, _ = shown(card(model, "base_model=org/x").split("---\n", 2)[2])
    for kind in ("html_block", "html_inline", "image", "s_open", "heading_open", "link_open", "code_block", "fence"):
        assert types.count(kind) == clean.count(kind), kind
