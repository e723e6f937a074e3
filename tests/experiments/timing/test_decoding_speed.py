"""The speed measurements at toy size: both sides agree, entries are appended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from experiments.timing import decoding_speed as speed
from experiments.timing import pairs

QUESTIONS = Path(os.environ.get("RAG_ZEVAL_DATA", "data")) / "natural_questions"
MODEL = Path("models/SmolLM2-135M-Instruct")
KEYS = {"name", "ratio", "ours_s", "theirs_s", "equal", "difference", "pairs"}


def test_evidence_measurement_agrees_with_difflib():
    entry = speed.measure_evidence(references=1, rollouts=2, spans=6, pairs=1)
    assert set(entry) == KEYS and entry["equal"] and entry["ratio"] == entry["theirs_s"] / entry["ours_s"]


def test_cad_measurement_agrees_with_transformers():
    pytest.importorskip("torch")
    entry = speed.measure_cad(questions=1, passage_tokens=20, new_tokens=3, pairs=1)
    assert set(entry) == KEYS and entry["equal"]


@pytest.mark.skipif(not (QUESTIONS.is_dir() and MODEL.is_dir()), reason="needs `make model` and real questions")
def test_a_real_model_writes_the_same_on_both_sides():
    """Its answers would end at different places, so that neither side may end one."""
    entry = speed.measure_cad_real(questions=1, new_tokens=32, pairs=1)
    assert set(entry) == KEYS and entry["equal"]


def test_entries_are_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "SUMMARY", tmp_path / "summary.json")
    small = lambda: speed.measure_evidence(references=1, rollouts=1, spans=2, pairs=1)  # noqa: E731
    monkeypatch.setitem(speed.MEASUREMENTS, "evidence", small)
    assert speed.main(["evidence"]) == speed.main(["evidence"]) == 0
    assert [entry["name"] for entry in json.loads((tmp_path / "summary.json").read_text())] == ["evidence"] * 2
