"""The speed measurements at toy size: both sides agree, entries are appended."""

from __future__ import annotations

import json

import pytest

from experiments.timing import decoding_speed as speed
from experiments.timing import pairs

KEYS = {"name", "ratio", "ours_s", "theirs_s", "equal", "difference", "pairs"}


def test_evidence_measurement_agrees_with_difflib():
    entry = speed.measure_evidence(references=1, rollouts=2, spans=6, pairs=1)
    assert set(entry) == KEYS and entry["equal"] and entry["ratio"] == entry["theirs_s"] / entry["ours_s"]


def test_cad_measurement_agrees_with_transformers():
    pytest.importorskip("torch")
    entry = speed.measure_cad(questions=1, passage_tokens=20, new_tokens=3, pairs=1)
    assert set(entry) == KEYS and entry["equal"]


def test_entries_are_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "SUMMARY", tmp_path / "summary.json")
    small = lambda: speed.measure_evidence(references=1, rollouts=1, spans=2, pairs=1)  # noqa: E731
    monkeypatch.setitem(speed.MEASUREMENTS, "evidence", small)
    assert speed.main(["evidence"]) == speed.main(["evidence"]) == 0
    assert [entry["name"] for entry in json.loads((tmp_path / "summary.json").read_text())] == ["evidence"] * 2
